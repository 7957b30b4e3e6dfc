//! Files of jobs, releases, samples and histograms that descriptions name, and manifests of containers.

use tailbound_model::{
    Problems, parse_exposition, parse_histogram, parse_jobs, parse_request_log, parse_samples,
    parse_trace,
};

/// Lists are in the order that they promise, and both readers of releases agree.
pub fn check(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    check_exposition(text);
    check_request_log(text);
    let limit = places(
        text,
        tailbound_manifest::container_limit(text, None, "deployment.yaml"),
    );
    assert!(limit.is_none_or(|limit| limit.billionths() > 0));
    let jobs = places(text, parse_jobs(text, "jobs.csv"));
    let releases = places(text, parse_trace(text, "jobs.csv"));
    assert_eq!(jobs.is_some(), releases.is_some());
    if let (Some(jobs), Some(releases)) = (jobs, releases) {
        assert!(jobs.iter().map(|job| job.release).eq(releases));
        assert!(jobs.is_sorted_by_key(|job| job.release));
        let mut csv = String::from("release_ns,execution_ns\n");
        if jobs.iter().all(|job| job.execution.is_some()) {
            for job in &jobs {
                let execution = job.execution.unwrap_or_default();
                csv += &format!("{},{}\n", job.release.as_nanos(), execution.as_nanos());
            }
            assert_eq!(parse_jobs(&csv, "again.csv").unwrap(), jobs);
        }
    }
    if let Some(samples) = places(text, parse_samples(text, "samples.csv")) {
        assert!(!samples.is_empty());
        assert!(samples.is_sorted_by_key(|sample| sample.value));
        assert!(samples.iter().all(|sample| sample.count > 0));
    }
    if let Some(bins) = places(text, parse_histogram(text, "histogram.csv")) {
        assert!(!bins.is_empty());
        assert!(bins.iter().all(|bin| bin.from <= bin.to && bin.count > 0));
    }
}

/// Logs have requests in their order.
fn check_request_log(text: &str) {
    if let Some(log) = places(text, parse_request_log(text, None, "access.log")) {
        assert!(!log.requests.is_empty());
        assert!(log.requests.is_sorted());
        assert!(
            log.requests
                .iter()
                .all(|request| request.start <= request.end)
        );
    }
}

/// Expositions have bins with observations.
fn check_exposition(text: &str) {
    if let Some(bins) = places(text, parse_exposition(text, None, "metrics.txt")) {
        assert!(!bins.is_empty());
        assert!(bins.iter().all(|bin| bin.from <= bin.to && bin.count > 0));
    }
}

fn places<T>(text: &str, reading: Result<T, Problems>) -> Option<T> {
    if let Err(problems) = &reading {
        assert!(problems.has_errors());
        crate::problems_have_places(text, problems);
    }
    reading.ok()
}
