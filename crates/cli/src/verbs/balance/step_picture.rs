//! Capacities, matching values and service levels over intervals as a picture: of a simulation, of a division that has ended, or
//! of its log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use tailbound_balance::simulation::PlayedBalance;
use tailbound_balance_manager::{DivisionState, PassedInterval};
use tailbound_report::{StepPanel, StepPicture, Theme, render_steps_html, render_steps_svg};
use tailbound_time::Duration;

use super::simulation_answer::STEPS;
use crate::failure::Failure;
use crate::output::{Output, write_file};

/// Files that the picture is written to.
#[derive(Clone, Debug, Default, Args)]
pub struct PictureArguments {
    /// Write capacities, matching values and service levels over the intervals as SVG.
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub export_svg: Option<PathBuf>,
    /// The same as a page of its own.
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub export_html: Option<PathBuf>,
}

impl PictureArguments {
    /// Whether there is one to be drawn.
    pub fn is_asked_for(&self) -> bool {
        self.export_svg.is_some() || self.export_html.is_some()
    }

    /// Draws what is asked for.
    pub fn write(&self, steps: &IntervalRecord, title: &str) -> Result<(), Failure> {
        if !self.is_asked_for() {
            return Ok(());
        }
        let picture = steps.picture(title);
        if let Some(path) = &self.export_svg {
            write_file(path, &render_steps_svg(&picture, Theme::Light))?;
        }
        if let Some(path) = &self.export_html {
            let page = render_steps_html(&picture, env!("CARGO_PKG_VERSION"));
            write_file(path, &page)?;
        }
        Ok(())
    }
}

/// `IntervalRecord` has the applications in each interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalRecord {
    names: Vec<String>,
    marks: Vec<Duration>,
    intervals: Vec<StepRow>,
}

/// An interval: each application by its place.
#[derive(Clone, Debug, Default, PartialEq)]
struct StepRow {
    at_ns: u64,
    cells: BTreeMap<usize, StepCell>,
}

/// An application in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct StepCell {
    capacity_ns: u64,
    matching_value: Option<f64>,
    service_level: Option<f64>,
}

impl IntervalRecord {
    /// The intervals of a simulation.
    pub fn of_simulation(played: &PlayedBalance) -> Self {
        let instant = |number: usize| played.interval_ns.saturating_mul(number as u64);
        let changes = played.phases.iter().skip(1).map(|phase| phase.first);
        let first = played.applications.first();
        let count = first.map_or(0, |one| one.intervals.len());
        let row = |number: usize| StepRow {
            at_ns: instant(number + 1),
            cells: played
                .applications
                .iter()
                .map(|one| &one.intervals[number])
                .map(|one| StepCell {
                    capacity_ns: one.capacity_ns,
                    matching_value: one.matching_value,
                    service_level: Some(one.service_level),
                })
                .enumerate()
                .collect(),
        };
        Self {
            names: played
                .applications
                .iter()
                .map(|one| one.name.clone())
                .collect(),
            marks: changes
                .map(|first| Duration::from_nanos(instant(first)))
                .collect(),
            intervals: (0..count).map(row).collect(),
        }
    }

    /// No interval yet of a division.
    pub fn of_division(state: &DivisionState) -> Self {
        let names = state.applications.iter().map(|one| one.name.clone());
        Self {
            names: names.collect(),
            ..Self::default()
        }
    }

    /// Adds an interval of the division.
    pub fn add(&mut self, passed: &PassedInterval) {
        let cells = passed.entries.iter().map(|one| StepCell {
            capacity_ns: one.capacity_ns,
            matching_value: one.matching_value,
            service_level: one.service_level,
        });
        self.intervals.push(StepRow {
            at_ns: passed.at_ns,
            cells: cells.enumerate().collect(),
        });
    }

    /// The intervals of a log.
    pub fn of_log(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::error(format!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text).map_err(|(number, fault)| {
            Failure::with_help(
                format!("{}:{number}: {fault}", path.display()),
                format!(
                    "give a file that `tailbound balance --log` or `--export-csv` has written, with the columns {}",
                    STEPS.join(",")
                ),
            )
        })
    }

    /// The intervals of a text of CSV, or the line with a fault.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut record = Self::default();
        let mut lines = (1..).zip(text.lines());
        let header = STEPS.join(",");
        match lines.next() {
            Some((_, first)) if first.starts_with(&header) => {}
            _ => return Err((1, format!("the header is not \"{header}\""))),
        }
        for (number, line) in lines {
            let fault = |column: usize, text: &str| {
                let wanted = if column == 0 || column == 2 {
                    "a whole number"
                } else {
                    "a number"
                };
                (
                    number,
                    format!("{} is \"{text}\", not {wanted}", STEPS[column]),
                )
            };
            // Behind the columns that are read stands a reason in any words.
            let fields: Vec<&str> = line.splitn(STEPS.len() + 1, ',').collect();
            if fields.len() < STEPS.len() {
                return Err((
                    number,
                    format!("{} of {} columns", fields.len(), STEPS.len()),
                ));
            }
            let whole = |column: usize| {
                fields[column]
                    .parse::<u64>()
                    .map_err(|_| fault(column, fields[column]))
            };
            let optional = |column: usize| match fields[column] {
                "" => Ok(None),
                text => match text.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(Some(value)),
                    _ => Err(fault(column, text)),
                },
            };
            let cell = StepCell {
                capacity_ns: whole(2)?,
                matching_value: optional(3)?,
                service_level: optional(4)?,
            };
            record.enter(whole(0)?, fields[1], cell);
        }
        Ok(record)
    }

    fn enter(&mut self, at_ns: u64, name: &str, cell: StepCell) {
        let place = self.names.iter().position(|one| one == name);
        let place = place.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        if self.intervals.last().is_none_or(|row| row.at_ns != at_ns) {
            let cells = BTreeMap::new();
            self.intervals.push(StepRow { at_ns, cells });
        }
        if let Some(row) = self.intervals.last_mut() {
            row.cells.insert(place, cell);
        }
    }

    fn picture(&self, title: &str) -> StepPicture {
        let sums = self.intervals.iter().map(|row| {
            let capacities = row.cells.values().map(|cell| cell.capacity_ns);
            capacities.fold(0, u64::saturating_add)
        });
        let whole_ns = sums.max().unwrap_or(0).max(1) as f64;
        let panel = |title: &str, (least, most), value: &dyn Fn(&StepCell) -> Option<f64>| {
            let line = |place: usize| {
                let cells = self.intervals.iter().map(|row| row.cells.get(&place));
                cells.map(|cell| cell.and_then(value)).collect()
            };
            StepPanel {
                title: title.to_owned(),
                least,
                most,
                is_share: least == 0.0,
                lines: (0..self.names.len()).map(line).collect(),
            }
        };
        StepPicture {
            title: title.to_owned(),
            about: "A value is that of the interval which ends there; a gap is an interval without a measurement."
                .to_owned(),
            ends: self
                .intervals
                .iter()
                .map(|row| Duration::from_nanos(row.at_ns))
                .collect(),
            marks: self.marks.clone(),
            names: self.names.clone(),
            panels: vec![
                panel("Capacity, share of the whole", (0.0, 1.0), &|cell| {
                    Some(cell.capacity_ns as f64 / whole_ns)
                }),
                panel("Matching value", (-1.0, 1.0), &|cell| cell.matching_value),
                panel("Service level", (0.0, 1.0), &|cell| cell.service_level),
            ],
        }
    }

    /// Says how much was drawn.
    pub fn tell(&self, output: &Output) {
        let count = self.intervals.len();
        let last = self.intervals.last().map_or(0, |row| row.at_ns);
        output.note(format!(
            "{count} intervals of {} applications, until {}",
            self.names.len(),
            Duration::from_nanos(last)
        ));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LOG: &str = "at_ns,application,capacity_ns,matching_value,service_level,latency_ns,hold\n\
                       5000,forum,40,0.5,1,100,\n\
                       5000,shop,40,-0.25,0.75,100,\n\
                       9000,forum,30,,,,\"no answer: \"\"refused\"\", late\"\n\
                       9000,shop,50,-1,0.5,,\n";

    #[test]
    fn a_log_becomes_a_line_for_each_application_in_each_panel() {
        let picture = IntervalRecord::parse(LOG).unwrap().picture("shops");
        assert_eq!(picture.names, ["forum", "shop"]);
        assert_eq!(picture.ends, [5000, 9000].map(Duration::from_nanos));
        let lines: Vec<_> = picture
            .panels
            .iter()
            .map(|panel| panel.lines.clone())
            .collect();
        assert_eq!(
            lines[0],
            [[Some(0.5), Some(0.375)], [Some(0.5), Some(0.625)]]
        );
        assert_eq!(lines[1], [[Some(0.5), None], [Some(-0.25), Some(-1.0)]]);
        assert_eq!(lines[2], [[Some(1.0), None], [Some(0.75), Some(0.5)]]);
    }

    #[test]
    fn a_fault_of_a_log_is_named_with_its_line_and_column() {
        let fault = |text: &str| IntervalRecord::parse(text).unwrap_err();
        assert_eq!(fault("").0, 1);
        let header = LOG.lines().next().unwrap();
        for (line, said) in [
            ("5000,forum", "2 of 6 columns"),
            ("x,forum,1,,,", "at_ns is \"x\", not a whole number"),
            ("1,forum,-1,,,", "capacity_ns is \"-1\", not a whole number"),
            ("1,forum,1,NaN,,", "matching_value is \"NaN\", not a number"),
        ] {
            assert_eq!(fault(&format!("{header}\n{line}\n")), (2, said.to_owned()));
        }
    }
}
