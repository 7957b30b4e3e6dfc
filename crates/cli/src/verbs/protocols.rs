//! Changes between modes under the protocol of a description, as `analyze` tells them and `apply` makes
//! them.

use serde::Serialize;
use tailbound_experiment::schedulability::protocols::{ASSUMPTIONS, ProtocolVerdict, protocols};
use tailbound_model::{ChangeProtocol, Description};
use tailbound_modes::table::StartOffset;
use tailbound_time::Duration;

use crate::failure::Failure;

/// The columns of the table for people.
pub const HEADER: [&str; 7] = [
    "protocol",
    "from",
    "to",
    "domain",
    "in time",
    "new tasks start after",
    "at most",
];

/// A change under the protocol.
#[derive(Serialize)]
pub struct OneProtocol {
    protocol: ChangeProtocol,
    from: String,
    to: String,
    domain: String,
    schedulable: bool,
    /// From the stop of the old tasks; none where nothing is guaranteed, or that stop is the idle instant.
    offset_ns: Option<u64>,
    latency_bound_ns: Option<u64>,
    why: Option<String>,
    method: Option<&'static str>,
    assumptions: &'static [&'static str],
}

/// Every change in which tasks of a domain change; none without a protocol.
pub fn of(description: &Description) -> Result<Vec<OneProtocol>, Failure> {
    let found = protocols(description).map_err(Failure::from_error)?;
    let protocol = description.mode_changes.protocol;
    let each = found.iter().map(|found| OneProtocol::of(protocol, found));
    Ok(each.collect())
}

/// The table for people, with what is taken for granted; nothing without a protocol.
pub fn table_of(all: &[OneProtocol]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = all.iter().map(OneProtocol::cells).collect();
    let granted: Vec<String> = ASSUMPTIONS.iter().map(|one| format!("- {one}")).collect();
    let table = crate::output::table(&HEADER, &rows);
    format!("\n{table}\ntaken for granted:\n{}\n", granted.join("\n"))
}

impl OneProtocol {
    fn of(protocol: ChangeProtocol, verdict: &ProtocolVerdict) -> Self {
        let found = verdict.found.as_ref();
        let ok = found.ok();
        Self {
            protocol,
            from: verdict.from.clone(),
            to: verdict.to.clone(),
            domain: verdict.domain.clone(),
            schedulable: ok.is_some(),
            offset_ns: ok.and_then(|one| one.offset).map(Duration::as_nanos),
            latency_bound_ns: ok.map(|one| one.latency_bound.as_nanos()),
            why: found.err().cloned(),
            method: ok.map(|one| one.theorem),
            assumptions: ASSUMPTIONS,
        }
    }

    /// A row of the table for people.
    pub fn cells(&self) -> Vec<String> {
        let told = |ns: u64| Duration::from_nanos(ns).to_string();
        let starts = match (self.schedulable, self.offset_ns) {
            (false, _) => "-".into(),
            (true, None) => "the answer (idle)".into(),
            (true, Some(offset)) => told(offset),
        };
        vec![
            word(self.protocol).into(),
            self.from.clone(),
            self.to.clone(),
            self.domain.clone(),
            match &self.why {
                None => "yes".into(),
                Some(why) => format!("no: {why}"),
            },
            starts,
            self.latency_bound_ns.map_or_else(|| "-".into(), told),
        ]
    }

    /// A row of the CSV that tasks and CPUs are in, too.
    pub fn csv_row(&self) -> Vec<String> {
        let text = |ns: Option<u64>| ns.map_or_else(String::new, |ns| ns.to_string());
        let mut row = vec![
            String::new(),
            "protocol".into(),
            format!("{} in {} to {}", self.domain, self.from, self.to),
        ];
        row.extend([(); 3].map(|()| String::new()));
        row.push(text(self.latency_bound_ns));
        row.push(String::new());
        row.push(if self.schedulable { "met" } else { "undecided" }.into());
        row.push(match (&self.why, self.offset_ns) {
            (Some(why), _) => why.clone(),
            (None, Some(offset)) => {
                let offset = Duration::from_nanos(offset);
                format!("{}: new tasks start after {offset}", word(self.protocol))
            }
            (None, None) => format!(
                "{}: new tasks start when the old ones are stopped, at the first idle instant",
                word(self.protocol)
            ),
        });
        row.push(self.method.unwrap_or_default().into());
        row
    }

    /// Why deadlines may be missed, if so.
    pub fn objection(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        let (from, to, domain) = (&self.from, &self.to, &self.domain);
        Some(format!(
            "the change from mode {from} to {to} is not shown to keep the deadlines of {domain}: {why}"
        ))
    }
}

fn word(protocol: ChangeProtocol) -> &'static str {
    match protocol {
        ChangeProtocol::None => "none",
        ChangeProtocol::IdleTime => "idle-time",
        ChangeProtocol::MaximumPeriodOffset => "maximum-period-offset",
        ChangeProtocol::MinimumSingleOffset => "minimum-single-offset",
    }
}

/// How long new tasks wait in each change.
///
/// # Errors
/// What stands against the protocol; nothing can be in force then that follows it.
pub fn offsets(description: &Description) -> Result<Vec<StartOffset>, Failure> {
    let found = of(description)?;
    let against: Vec<String> = found.iter().filter_map(OneProtocol::objection).collect();
    if !against.is_empty() {
        return Err(Failure::Verdict(against.join("\n")));
    }
    let offsets = found.into_iter().map(|one| StartOffset {
        offset: Duration::from_nanos(one.offset_ns.unwrap_or_default()),
        from: one.from,
        to: one.to,
        domain: one.domain,
    });
    Ok(offsets.collect())
}
