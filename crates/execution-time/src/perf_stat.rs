//! Output of `perf stat -x,` and of `perf stat -j`.

use std::collections::BTreeMap;

use serde_json::Value;
use tailbound_time::Duration;

use crate::error::RecordingError;

/// The events of one `perf stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfStat {
    /// The CPU time, by the event `task-clock`.
    pub time: Option<Duration>,
    /// The counts of all events without a unit that the machine supports, by the event's name.
    pub counts: BTreeMap<String, u64>,
}

/// The value, the unit and the name of an event, and the percentage of the time in which it was counted.
struct PerfEvent<'a> {
    value: String,
    unit: &'a str,
    name: &'a str,
}

impl PerfStat {
    /// Reads the text of the file `file`. Lines with `#` in front are comments. Events that the machine does not
    /// support are left out; with `-r`, values are means.
    ///
    /// # Errors
    /// A line has neither form, or an event was not counted: the message names file, line and event.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecordingError> {
        let mut stat = Self::default();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let place = |error: RecordingError| error.at_line(line);
            if content.starts_with('{') {
                let value: Value = serde_json::from_str(content).map_err(|error| {
                    let what = format!("this is no JSON ({error})");
                    place(RecordingError::of_file(
                        file,
                        what,
                        "keep the line as `perf stat -j` wrote it",
                    ))
                })?;
                stat.enter(file, &json_event(file, &value).map_err(place)?)
                    .map_err(place)?;
            } else {
                stat.enter(file, &separated_event(file, content).map_err(place)?)
                    .map_err(place)?;
            }
        }
        Ok(stat)
    }

    fn enter(&mut self, file: &str, event: &PerfEvent<'_>) -> Result<(), RecordingError> {
        let wrong = |what: String, right: &str| {
            RecordingError::of_file(file, what, right).of_key(event.name)
        };
        match (event.value.as_str(), event.unit) {
            ("<not supported>", _) => return Ok(()),
            ("<not counted>", _) => {
                let right = "record fewer events at a time, or a longer run";
                return Err(wrong("the event was not counted".into(), right));
            }
            _ => {}
        }
        let value: f64 = event
            .value
            .parse()
            .ok()
            .filter(|value| (0.0..9e15).contains(value))
            .ok_or_else(|| {
                wrong(
                    format!("\"{}\" is no count", event.value),
                    "record with `perf stat -x,` or `-j`",
                )
            })?;
        match (event.name, event.unit) {
            ("task-clock" | "task-clock:u", "msec") => {
                self.time = Some(Duration::from_secs_f64_nearest(value / 1e3))
            }
            (name, "") => {
                let before = self.counts.insert(name.to_owned(), value.round() as u64);
                before.map_or(Ok(()), |_| {
                    Err(wrong(
                        "the event is there twice".into(),
                        "keep the output of one `perf stat` a file",
                    ))
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// An event in the form of `-x,`: value, unit, event, and fields that do not matter here.
fn separated_event<'a>(file: &str, line: &'a str) -> Result<PerfEvent<'a>, RecordingError> {
    let separator = if line.contains(',') { ',' } else { ';' };
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    match fields[..] {
        [value, unit, name, ..] if !name.is_empty() => Ok(PerfEvent {
            value: value.to_owned(),
            unit,
            name,
        }),
        _ => {
            let right = "keep the line as `perf stat -x,` wrote it: value, unit, event";
            Err(RecordingError::of_file(
                file,
                "the line has no event",
                right,
            ))
        }
    }
}

/// An event in the form of `-j`.
fn json_event<'a>(file: &str, value: &'a Value) -> Result<PerfEvent<'a>, RecordingError> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let count = match value.get("counter-value") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let (Some(count), Some(name)) = (count, text("event")) else {
        let right = "keep the line as `perf stat -j` wrote it, with `counter-value` and `event`";
        return Err(RecordingError::of_file(
            file,
            "the line has no event",
            right,
        ));
    };
    Ok(PerfEvent {
        value: count,
        unit: text("unit").unwrap_or_default(),
        name,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What perf 6.1 wrote on a virtual machine.
    const SEPARATED: &str = "# started on Wed Nov 25 05:00:00 2026\n\n\
        0.88,msec,task-clock,880622,100.00,0.409,CPUs utilized\n\
        1,,context-switches,880622,100.00,1.136,K/sec\n\
        <not supported>,,instructions,0,100.00,,\n\
        49,,page-faults,880622,100.00,55.642,K/sec\n";
    const JSON: &str = r#"{"counter-value" : "0.709908", "unit" : "msec", "event" : "task-clock", "event-runtime" : 709908, "pcnt-running" : 100.00, "metric-value" : 0.518859, "metric-unit" : "CPUs utilized"}
{"counter-value" : "<not supported>", "unit" : "", "event" : "instructions", "event-runtime" : 0, "pcnt-running" : 100.00, "metric-value" : 0.000000, "metric-unit" : ""}
{"counter-value" : "1368209.000000", "unit" : "ns", "event" : "duration_time", "event-runtime" : 1368209, "pcnt-running" : 100.00, "metric-value" : 1.927305, "metric-unit" : "G/sec"}
{"counter-value" : "7.000000", "unit" : "", "event" : "page-faults"}"#;

    #[test]
    fn both_forms_of_perf_stat_are_read() {
        let stat = PerfStat::parse("x", SEPARATED).unwrap();
        assert_eq!(stat.time, Some(Duration::from_micros(880)));
        assert_eq!(
            Vec::from_iter(&stat.counts),
            [
                (&"context-switches".into(), &1),
                (&"page-faults".into(), &49)
            ]
        );
        let stat = PerfStat::parse("x", JSON).unwrap();
        assert_eq!(stat.time, Some(Duration::from_nanos(709_908)));
        assert_eq!(Vec::from_iter(&stat.counts), [(&"page-faults".into(), &7)]);
    }

    #[test]
    fn an_event_that_was_not_counted_is_named() {
        let error = PerfStat::parse("a.perf", "\n<not counted>,,cycles,0,0.00,,\n").unwrap_err();
        assert_eq!(
            (error.line, error.key.as_deref()),
            (Some(2), Some("cycles"))
        );
        let error = PerfStat::parse("a.perf", "{\"event\": \"cycles\"}")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("a.perf, line 1: "), "{error}");
        assert!(PerfStat::parse("a.perf", "1,,x\n2,,x").is_err());
    }
}
