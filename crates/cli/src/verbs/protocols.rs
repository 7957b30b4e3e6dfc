//! Changes between modes under the protocol of a description, as `analyze` tells them and `apply` makes
//! them.

use tailbound_assessment::protocols::{ASSUMPTIONS, ProtocolVerdict, protocols};
use tailbound_model::{ChangeProtocol, Description};
use tailbound_modes::table::StartOffset;
use tailbound_time::Duration;

use super::analyze_file::CsvRow;
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

/// The table for people, with what is taken for granted; nothing without a protocol.
pub fn table_of(all: &[ProtocolVerdict]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = all.iter().map(cells).collect();
    let granted: Vec<String> = ASSUMPTIONS.iter().map(|one| format!("- {one}")).collect();
    let table = crate::output::table(&HEADER, &rows);
    format!("\n{table}\ntaken for granted:\n{}\n", granted.join("\n"))
}

/// A row of the table for people.
fn cells(one: &ProtocolVerdict) -> Vec<String> {
    let (in_time, starts, at_most) = match &one.transit {
        Err(why) => (format!("no: {why}"), "-".into(), "-".into()),
        Ok(kept) => {
            let offset = kept.offset.map(|offset| offset.to_string());
            let starts = offset.unwrap_or_else(|| "the answer (idle)".into());
            ("yes".to_owned(), starts, kept.latency_bound.to_string())
        }
    };
    vec![
        word(one.protocol).into(),
        one.from.clone(),
        one.to.clone(),
        one.domain.clone(),
        in_time,
        starts,
        at_most,
    ]
}

/// A row of the CSV that tasks and CPUs are in, too.
pub fn csv_row(one: &ProtocolVerdict) -> CsvRow {
    let word = word(one.protocol);
    let row = CsvRow {
        kind: "protocol",
        name: format!("{} in {} to {}", one.domain, one.from, one.to),
        ..CsvRow::default()
    };
    match &one.transit {
        Err(why) => CsvRow {
            verdict: "undecided",
            why: why.clone(),
            ..row
        },
        Ok(kept) => CsvRow {
            response_bound: Some(kept.latency_bound),
            verdict: "met",
            why: match kept.offset {
                Some(offset) => format!("{word}: new tasks start after {offset}"),
                None => format!(
                    "{word}: new tasks start when the old ones are stopped, at the first idle instant"
                ),
            },
            method: kept.theorem.into(),
            ..row
        },
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
    let mut offsets = Vec::new();
    let mut against = Vec::new();
    for one in protocols(description).map_err(Failure::from_error)? {
        match (&one.transit, one.objection()) {
            (Ok(kept), _) => offsets.push(StartOffset {
                offset: kept.offset.unwrap_or(Duration::ZERO),
                from: one.from,
                to: one.to,
                domain: one.domain,
            }),
            (Err(_), objection) => against.extend(objection),
        }
    }
    match against.is_empty() {
        true => Ok(offsets),
        false => Err(Failure::Verdict(against.join("\n"))),
    }
}
