//! The checks of the table `[sampling]` against the rest of the description.

use std::collections::BTreeMap;

use tailbound_application_report::{ReportAddress, SeriesName, XmlPath};
use tailbound_model::{Axis, Check, Cpu, KeyPath, Section};
use tailbound_time::Duration;

use crate::grid::MOST_POINTS;
use crate::table::{PERIOD, SHARE, described_bandwidth};
use crate::{ReportedMetric, SamplingCampaign, SamplingDesign};

/// Shares above a whole CPU by less than this come from rounding.
const ROUNDING: f64 = 1e-9;

/// Adds the problems of the table, if the description has one.
pub(crate) fn check_table(campaign: &SamplingCampaign, check: &mut Check<'_>) {
    if !check
        .names_at(&KeyPath::root())
        .contains(&SamplingCampaign::KEY)
    {
        return;
    }
    if !campaign.varies() {
        check.error(
            &place(),
            "nothing is varied",
            "give `share`, `period` or `axes`",
        );
    }
    promises(campaign, check);
    let axes = axes(campaign, check);
    proportions(campaign, check);
    shares(campaign, check, &axes);
    figures(campaign, check);
    for (name, metric) in &campaign.metrics {
        reported(name, metric, check);
    }
}

fn place() -> KeyPath {
    KeyPath::root().key(SamplingCampaign::KEY)
}

/// Promises are what a campaign answers for.
fn promises(campaign: &SamplingCampaign, check: &mut Check<'_>) {
    let names = check.names("services");
    for (index, name) in campaign.services.iter().enumerate() {
        let here = place().key("services").index(index);
        check.reference(&here, "service", name, &names);
        let service = check.description().services.get(name);
        if service.is_some_and(|service| service.slos.is_empty()) {
            check.error(
                &here,
                format!("service `{name}` promises nothing"),
                format!("add a promise, [[services.{name}.slos]], or name another service"),
            );
        }
    }
    if campaign.services.is_empty() && campaign.promised(check.description()).is_empty() {
        check.error(
            &place(),
            "no service promises anything, so there is no question to answer",
            "add a promise to a service, [[services.NAME.slos]]",
        );
    }
}

/// The axes that can be read; complains of the others.
fn axes(campaign: &SamplingCampaign, check: &mut Check<'_>) -> Vec<Axis> {
    let mut axes = Vec::new();
    for (key, values) in &campaign.axes {
        let here = place().key("axes").key(key);
        varied_key(campaign, check, &here, key);
        axes.extend(axis(check, &here, key, values));
    }
    for (name, values) in [(SHARE, &campaign.share), (PERIOD, &campaign.period)] {
        if let Some(values) = values {
            axes.extend(axis(check, &place().key(name), name, values));
        }
    }
    let points = axes
        .iter()
        .map(|axis| axis.values.len())
        .fold(1, usize::saturating_mul);
    if points > MOST_POINTS {
        check.error(
            &place(),
            format!("the axes have {points} combinations"),
            format!("leave values out: a campaign has {MOST_POINTS} points at most"),
        );
    }
    axes
}

fn axis(check: &mut Check<'_>, here: &KeyPath, key: &str, values: &str) -> Option<Axis> {
    match format!("{key}={values}").parse::<Axis>() {
        Ok(axis) => {
            for (index, value) in axis.values.iter().enumerate() {
                if axis.values[..index].contains(value) {
                    check.error(
                        here,
                        format!("{value} is there twice"),
                        "write each value once",
                    );
                }
            }
            Some(axis)
        }
        Err(error) => {
            check.error(
                here,
                format!("\"{values}\" varies nothing: {}", error.what),
                "write values with commas, or START..END/STEP",
            );
            None
        }
    }
}

/// Complains of a key that cannot be varied.
fn varied_key(campaign: &SamplingCampaign, check: &mut Check<'_>, here: &KeyPath, key: &str) {
    let table = key.split('.').next().unwrap_or_default();
    if ["seed", "schema_version", "name", "sampling", "experiment"].contains(&table) {
        check.error(
            here,
            format!("`{table}` is nothing that a point has a value of its own for"),
            "vary a key of hosts, domains or services",
        );
        return;
    }
    check.varied_key(here, key);
    let own = campaign.share.is_some() || campaign.period.is_some();
    let parts = campaign.parts(check.description());
    let mut names = parts.keys();
    let of_campaign = |name: &String| {
        let reservation = format!("domains.{name}.reservation");
        key == format!("{reservation}.budget") || key == format!("{reservation}.period")
    };
    if own && names.any(of_campaign) {
        check.error(
            here,
            "this key is varied by `share` and `period`, too",
            "leave the axis out, or `share` and `period`",
        );
    }
}

/// The reservations of the campaign have budgets.
fn proportions(campaign: &SamplingCampaign, check: &mut Check<'_>) {
    let names = check.names("domains");
    for (name, weight) in &campaign.proportions {
        let here = place().key("proportions").key(name);
        check.reference(&here, "domain", name, &names);
        let Some(domain) = check.description().domains.get(name) else {
            continue;
        };
        let has_budget = domain.reservation.as_ref().and_then(described_bandwidth);
        if has_budget.is_none() {
            check.error(
                &here,
                format!("domain `{name}` has no reservation with a budget and a period"),
                format!("give domains.{name}.reservation both; a campaign replaces their values"),
            );
        }
        if !(weight.is_finite() && *weight > 0.0) {
            check.error(
                &here,
                format!("the part {weight} is none"),
                "write a number above zero",
            );
        }
    }
    let own = campaign.share.is_some() || campaign.period.is_some();
    if own && campaign.proportions.is_empty() && campaign.parts(check.description()).is_empty() {
        check.error(
            &place(),
            "no domain has a reservation with a budget and a period, which `share` and `period` would vary",
            "give the application's domains a reservation, such as \
             { budget = \"5ms\", period = \"10ms\", cpus = [1] }",
        );
    }
}

/// Shares and periods that a reservation can have.
fn shares(campaign: &SamplingCampaign, check: &mut Check<'_>, axes: &[Axis]) {
    for axis in axes.iter().filter(|axis| axis.key == PERIOD) {
        for value in &axis.values {
            let period: Result<Duration, _> = value.parse();
            if period.is_ok_and(|period| !period.is_zero()) {
                continue;
            }
            check.error(
                &place().key(PERIOD),
                format!("{value} is no period"),
                "write durations above zero, such as \"10ms..160ms/50ms\"",
            );
        }
    }
    let mut most: f64 = 0.0;
    for axis in axes.iter().filter(|axis| axis.key == SHARE) {
        for value in &axis.values {
            match value.parse::<f64>() {
                Ok(share) if share.is_finite() && share > 0.0 => most = most.max(share),
                _ => check.error(
                    &place().key(SHARE),
                    format!("{value} is no share"),
                    "write percentages above zero, such as \"20..90/5\"",
                ),
            }
        }
    }
    for (cpu, percent) in most_of_cpus(campaign, check, most) {
        if percent > 100.0 + ROUNDING {
            check.error(
                &place().key(SHARE),
                format!("at a share of {most}%, {percent:.1}% of CPU {cpu} would be reserved"),
                "lower the highest share, or reserve less for domains beside the campaign",
            );
        }
    }
}

/// The reserved percentage of each CPU at the highest share.
fn most_of_cpus(campaign: &SamplingCampaign, check: &Check<'_>, most: f64) -> BTreeMap<Cpu, f64> {
    let description = check.description();
    let parts = campaign.parts(description);
    let mut sums = BTreeMap::new();
    for (name, domain) in &description.domains {
        let Some(reservation) = &domain.reservation else {
            continue;
        };
        let Some(bandwidth) = described_bandwidth(reservation) else {
            continue;
        };
        let percent = match parts.get(name) {
            Some(part) if campaign.share.is_some() => most * part,
            _ => bandwidth * 100.0,
        };
        let shared = match reservation.budget_scope {
            tailbound_model::BudgetScope::EachCpu => 1.0,
            tailbound_model::BudgetScope::AllCpus => reservation.cpus.len().max(1) as f64,
        };
        for cpu in &reservation.cpus {
            *sums.entry(*cpu).or_insert(0.0) += percent / shared;
        }
    }
    match campaign.share {
        Some(_) => sums,
        // Budgets as described are the admission's to judge.
        None => BTreeMap::new(),
    }
}

/// Times and figures that make sense together.
fn figures(campaign: &SamplingCampaign, check: &mut Check<'_>) {
    check.above_zero(
        &place().key("least_time"),
        "the least time",
        campaign.least_time,
    );
    if campaign.most_time < campaign.least_time {
        check.error(
            &place().key("most_time"),
            format!(
                "a point has {} at most, and {} at least",
                campaign.most_time, campaign.least_time
            ),
            "raise `most_time`, or lower `least_time`",
        );
    }
    if let Some(budget) = campaign.time_budget
        && budget < campaign.least_time.saturating_add(campaign.warm_up)
    {
        check.error(
            &place().key("time_budget"),
            format!("not one point is measured within {budget}"),
            "give the campaign more time, or its points less",
        );
    }
    if campaign.precision.0 <= 0.0 {
        check.error(
            &place().key("precision"),
            "no interval is that narrow",
            "write percents above zero, such as 10",
        );
    }
    if campaign.tolerance_points.0 < 0.0 {
        check.error(
            &place().key("tolerance_points"),
            "a difference below zero is none",
            "write percentage points, such as 5",
        );
    }
    if campaign.design == SamplingDesign::Adaptive && campaign.share.is_none() {
        check.error(
            &place().key("design"),
            "an adaptive campaign looks for the least bandwidth, and no share is varied",
            "give `share`, such as \"20..90/5\", or write design = \"factorial\"",
        );
    }
}

/// A metric has one source and one place, and a name that a column can have.
fn reported(name: &str, metric: &ReportedMetric, check: &mut Check<'_>) {
    let here = place().key("metrics").key(name);
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() || !name.chars().all(is_letter) {
        check.error(
            &here,
            format!("\"{name}\" is no name of a column"),
            "write letters, digits and underscores",
        );
    }
    match (&metric.url, metric.command.is_empty()) {
        (Some(_), false) | (None, true) => check.error(
            &here,
            "a metric has a report at an address or printed by a command",
            "give either `url` or `command`",
        ),
        (Some(url), true) => report_address(url, metric, &here, check),
        _ => {}
    }
    report_places(metric, &here, check);
}

/// The address of a report, and the certificates that an `https` address needs.
fn report_address(url: &str, metric: &ReportedMetric, here: &KeyPath, check: &mut Check<'_>) {
    match (ReportAddress::parse(url), &metric.tls) {
        (None, _) => check.error(
            &here.key("url"),
            format!("\"{url}\" is no address of a report"),
            "write http://HOST:PORT/PATH or https://HOST:PORT/PATH; what has another form can be fetched by `command`",
        ),
        (Some(address), None) if address.is_secure => check.error(
            &here.key("url"),
            "an https address needs the certificates by which the service is known",
            "add tls = { authority = \"FILE.pem\" }",
        ),
        (Some(address), Some(_)) if !address.is_secure => check.error(
            &here.key("tls"),
            "only an https address has certificates",
            "write https:// in `url`, or leave out `tls`",
        ),
        _ => {}
    }
    if let Some(tls) = &metric.tls {
        tls.check_files(&here.key("tls"), check);
    }
}

/// At most one form, and places that are written in it.
fn report_places(metric: &ReportedMetric, here: &KeyPath, check: &mut Check<'_>) {
    let forms = [&metric.json, &metric.xml, &metric.prometheus];
    let count = forms.into_iter().flatten().count();
    if count > 1 {
        return check.error(
            here,
            "a report is either JSON, XML or text of Prometheus",
            "leave one of `json`, `xml` and `prometheus`",
        );
    }
    if metric.stamp_ms.is_some() && count == 0 {
        check.error(
            &here.key("stamp_ms"),
            "a report that is only a number has no place for a time",
            "give `json`, `xml` or `prometheus`, or leave out `stamp_ms`",
        );
    }
    let keys = [
        ("json", &metric.json),
        ("xml", &metric.xml),
        ("prometheus", &metric.prometheus),
    ];
    for (form, place) in keys {
        let places = [(form, place), ("stamp_ms", &metric.stamp_ms)];
        for (key, text) in places {
            if let (Some(_), Some(text)) = (place, text) {
                report_place(form, text, &here.key(key), check);
            }
        }
    }
}

fn report_place(form: &str, text: &str, key: &KeyPath, check: &mut Check<'_>) {
    match form {
        "json" if !text.starts_with('/') => check.error(
            key,
            format!("\"{text}\" is no JSON Pointer"),
            "begin it with a slash, such as /requests/0/mean_ms",
        ),
        "xml" => {
            if let Err(error) = text.parse::<XmlPath>() {
                let what = format!("\"{text}\" is no path in XML");
                check.error(key, what, error.remedy);
            }
        }
        "prometheus" if SeriesName::parse(text).is_none() => check.error(
            key,
            format!("\"{text}\" is no series"),
            "write NAME or NAME{LABEL=\"VALUE\"}",
        ),
        _ => {}
    }
}
