//! Files: what is refused and why, what other programs wrote, and that nothing makes us panic.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use proptest::prelude::*;
use tailbound_distribution::{
    CsvError, Distribution, Evidence, HdrError, Provenance, Shape, read_hdr_log, write_hdr_log,
};
use tailbound_time::Duration;

const NS: fn(u64) -> Duration = Duration::from_nanos;

fn sampled(values: &[u64]) -> Distribution {
    let provenance = Provenance::new(Evidence::Sample, "latency of a test", "made up");
    Distribution::from_samples(provenance, values.iter().copied().map(NS).collect())
}

#[test]
fn a_plain_list_under_a_header_is_a_sample() {
    let read = Distribution::from_csv("latency_ns\n30\n\n10\n# a remark\n20\n").unwrap();
    assert_eq!(read.shape, Shape::Samples(vec![NS(10), NS(20), NS(30)]));
    assert_eq!(read.provenance.evidence, Evidence::Sample);
}

#[test]
fn csv_errors_name_line_and_remedy() {
    let cases = [
        ("", "no header line; write \"latency_ns\""),
        ("# only: a comment\n", "no header line"),
        ("time\n5\n", "line 1: \"time\" is no header"),
        ("latency_ns\n5\n5ms\n", "line 3: \"5ms\" is no latency_ns"),
        ("latency_ns\n-5\n", "line 2: \"-5\" is no latency_ns"),
        (
            "latency_ns\n5,6\n",
            "line 2: 2 cells where the header has 1",
        ),
        ("latency_ns,censored\n5,2\n", "line 2: \"2\" is no mark"),
        (
            "latency_ns,cumulative\n5,1.5\n",
            "line 2: \"1.5\" is no cumulative",
        ),
        (
            "latency_ns,cumulative\n5,NaN\n",
            "line 2: \"NaN\" is no cumulative",
        ),
        (
            "latency_ns,cumulative\n5,0.5\n4,0.6\n",
            "step 1 at 4ns does not lie after",
        ),
        ("latency_ns,cumulative\n", "at least one step"),
        (
            "# tailbound distribution 2\nlatency_ns\n5\n",
            "line 1: \"tailbound distribution 2\"",
        ),
        (
            "# evidence: rumour\nlatency_ns\n5\n",
            "line 1: \"rumour\" is no evidence",
        ),
        ("# seed: -1\nlatency_ns\n5\n", "line 1: \"-1\" is no seed"),
    ];
    for (text, expected) in cases {
        let error: CsvError = Distribution::from_csv(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn logs_are_those_of_hdrhistogram() {
    let values: Vec<u64> = (1..=1_000).map(|index| index * 12_345).collect();
    let log = write_hdr_log(&[(Some("redis"), &sampled(&values))], 3).unwrap();
    assert!(log.starts_with("#[Histogram log format version 1.3]\n"));
    // The library's own reader takes it, legend and all removed as its grammar wants.
    let without_legend: String = log
        .lines()
        .filter(|line| !line.starts_with('"'))
        .map(|line| format!("{line}\n"))
        .collect();
    let intervals: Vec<_> = IntervalLogIterator::new(without_legend.as_bytes())
        .filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        })
        .collect();
    assert_eq!(intervals.len(), 1);
    assert_eq!(intervals[0].tag().unwrap().as_str(), "redis");
}

/// Written by the reference implementation in Java, 2.2.2: for i from 1 to 20 the value
/// 54321 i^2, in two intervals of one tag.
#[test]
fn logs_of_the_java_implementation_are_read() {
    const HISTOGRAM: &str = "HISTFAAAAF942pNpmSzMwMBgwwABzFCaEch0M9ixgMH+A0TgYBbTX3mmpcJMV3mYpnMx\
        dXMy7WRjmsnGNJ+N6Ssz00oWpvssTJeZmR4zMf1lYprJzLSZmeklE9NHRqZGJiYAb3wUuw==";
    let log = format!(
        "#[Histogram log format version 1.3]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n\
         Tag=redis,0.000,1.000,21.742,{HISTOGRAM}\nTag=redis,1.000,1.000,21.742,{HISTOGRAM}\n"
    );
    let series = read_hdr_log(log.as_bytes()).unwrap();
    assert_eq!((series.len(), series[0].tag.as_deref()), (1, Some("redis")));
    assert_eq!(series[0].significant_digits, 3);
    let mut expected: Vec<u64> = (1..=20).flat_map(|i| [54_321 * i * i; 2]).collect();
    expected.sort_unstable();
    let read = series[0].distribution.samples();
    assert_eq!(read.len(), expected.len());
    for (kept, exact) in read.iter().zip(expected) {
        let excess = kept.as_nanos().checked_sub(exact).unwrap();
        assert!(excess * 1_000 <= exact, "{kept} for {exact}");
    }
}

#[test]
fn log_errors_say_what_is_wrong() {
    let curve = Distribution::from_csv("latency_ns,cumulative\n5,1\n").unwrap();
    let refused = |series: &[(Option<&str>, &Distribution)], digits| {
        write_hdr_log(series, digits).unwrap_err()
    };
    assert!(matches!(
        refused(&[(None, &curve)], 3),
        HdrError::NotSamples { .. }
    ));
    assert!(matches!(
        refused(&[(Some("a b"), &sampled(&[1]))], 3),
        HdrError::Tag(_)
    ));
    assert!(matches!(
        refused(&[(None, &sampled(&[1]))], 6),
        HdrError::Digits(6)
    ));
    assert!(matches!(
        refused(&[(None, &sampled(&[u64::MAX]))], 3),
        HdrError::TooLong(_)
    ));
    assert!(matches!(read_hdr_log(b"#only\n"), Err(HdrError::Empty)));
    assert!(matches!(
        read_hdr_log(b"#\nhello\n"),
        Err(HdrError::NotAnInterval { line: 2 })
    ));
    assert!(matches!(
        read_hdr_log(b"\xff\n"),
        Err(HdrError::NotText { line: 1 })
    ));
    let damaged = read_hdr_log(b"0,1,2,HISTFAAAAEV42pNpmSzM\n");
    assert!(
        matches!(damaged, Err(HdrError::Histogram { line: 1, .. })),
        "{damaged:?}"
    );
}

/// Headers that state more than is there, and counts no histogram can have.
#[test]
fn hostile_histograms_are_refused_cheaply() {
    let plain = |length: u32, digits: u32, high: u64, payload: &[u8]| {
        let mut bytes = Vec::new();
        bytes.extend(0x1c84_9313_u32.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(1_u64.to_be_bytes());
        bytes.extend(high.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(payload);
        format!("0,1,2,{}\n", STANDARD.encode(bytes))
    };
    let fine = plain(1, 3, 1_000, &[2]);
    assert_eq!(
        read_hdr_log(fine.as_bytes()).unwrap()[0]
            .distribution
            .count(),
        Some(1)
    );
    let hostile = [
        plain(u32::MAX, 3, 1_000, &[2]),
        plain(9, 3, 1_000, &[0xff; 9]),
        plain(
            9,
            3,
            1_000,
            &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        plain(1, 99, 1_000, &[2]),
        plain(1, 3, 0, &[2]),
        plain(2, 3, 1_000, &[0x80, 0x80]),
    ];
    for log in hostile {
        assert!(read_hdr_log(log.as_bytes()).is_err(), "{log}");
    }
}

proptest! {
    #[test]
    fn logs_round_trip_within_their_precision(
        values in prop::collection::vec(0_u64..1_000_000_000_000, 1..50), digits in 0_u8..=5,
    ) {
        let log = write_hdr_log(&[(None, &sampled(&values))], digits).unwrap();
        let series = read_hdr_log(log.as_bytes()).unwrap();
        let read = series[0].distribution.samples();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        prop_assert_eq!(read.len(), sorted.len());
        for (kept, exact) in read.iter().zip(sorted) {
            let kept = kept.as_nanos();
            let slack = exact as f64 / 10_f64.powi(i32::from(digits)) + 1.0;
            prop_assert!(kept >= exact, "never shorter: {} for {}", kept, exact);
            prop_assert!(((kept - exact) as f64) <= slack, "{} for {}", kept, exact);
        }
    }

    #[test]
    fn no_text_makes_the_csv_reader_panic(text in "\\PC*|[#a-z_,:\\n0-9. ]{0,200}") {
        let _outcome = Distribution::from_csv(&text);
        for header in ["latency_ns", "latency_ns,censored", "latency_ns,cumulative",
            "latency_ns,cumulative_low,cumulative_high"] {
            let _outcome = Distribution::from_csv(&format!("{header}\n{text}"));
        }
    }

    #[test]
    fn no_bytes_make_the_log_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _outcome = read_hdr_log(&bytes);
        let framed = format!("Tag=x,0.1,1.0,2.0,{}\n", STANDARD.encode(&bytes));
        let _outcome = read_hdr_log(framed.as_bytes());
    }

    #[test]
    fn mutated_files_never_panic(
        values in prop::collection::vec(0_u64..1_000_000, 1..20),
        place: prop::sample::Index, byte: u8,
    ) {
        let mut log = write_hdr_log(&[(Some("a"), &sampled(&values))], 2).unwrap().into_bytes();
        let index = place.index(log.len());
        log[index] = byte;
        let _outcome = read_hdr_log(&log);
        let mut csv = sampled(&values).to_csv().into_bytes();
        let index = place.index(csv.len());
        csv[index] = byte;
        let _outcome = Distribution::from_csv(&String::from_utf8_lossy(&csv));
    }

    #[test]
    fn mutated_histograms_never_panic(
        header in prop::collection::vec(any::<u8>(), 32), payload in prop::collection::vec(any::<u8>(), 0..40),
        sane: bool,
    ) {
        let mut bytes = 0x1c84_9313_u32.to_be_bytes().to_vec();
        if sane {
            bytes.extend((payload.len() as u32).to_be_bytes());
            bytes.extend([0, 0, 0, 0, 0, 0, 0, header[0] % 6]);
            bytes.extend(u64::from(header[1]).to_be_bytes());
            bytes.extend(u64::from(header[2]).to_be_bytes());
            bytes.extend(1.0_f64.to_be_bytes());
        } else {
            bytes.extend(&header);
            bytes.extend([0; 4]);
        }
        bytes.extend(&payload);
        let _outcome = read_hdr_log(format!("0,1,2,{}\n", STANDARD.encode(bytes)).as_bytes());
    }

    #[test]
    fn no_json_makes_a_broken_curve(at in prop::collection::vec(0_u64..100, 0..5),
        cumulative in prop::collection::vec(-0.5_f64..1.5, 0..5)) {
        let text = serde_json::json!({
            "provenance": {"evidence": "sample", "subject": "s", "method": "m"},
            "shape": {"curve": {"at_ns": at, "cumulative": cumulative}},
        }).to_string();
        if let Ok(read) = serde_json::from_str::<Distribution>(&text) {
            prop_assert!(read.quantile(0.5).is_some());
            prop_assert!(read.mean().is_some());
        }
    }
}
