//! `tailbound predict recovery`: predictions of a ZooKeeper ensemble's recovery against measured ones.

use std::path::Path;

use tailbound_analysis::recovery::{CpuShare, FairShare, ServerReservation};
use tailbound_assessment::recovery::{
    Breakdown, BusyHost, PhaseBound, RecoveryAnswer, RecoveryError, predict_recovery,
};
use tailbound_time::Duration;

use crate::arguments::{BusyHostArguments, RecoveryArguments};
use crate::failure::Failure;
use crate::output::{Output, read_file};

/// Reads a breakdown, and prints for each phase the prediction and the measured maximum.
pub fn carry_out(arguments: &RecoveryArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    let breakdown = breakdown(&arguments.breakdown)?;
    let busy = busy_host(&arguments.busy)?;
    let answer = predict_recovery(&breakdown, arguments.margin, busy.as_ref()).map_err(failure)?;
    if arguments.busy.against.is_some() {
        for case in &answer.unmeasured {
            output.note(format!(
                "no recovery was measured beside others for {}, {} servers, cause {}",
                case.variant, case.servers, case.cause
            ));
        }
    }
    for method in &answer.methods {
        output.note(format!("predicted by: {method}"));
    }
    print(&answer, busy.is_some(), output)?;
    let phases = answer.phases.iter();
    let broken = phases.filter(|row| row.holds == Some(false)).count();
    if broken > 0 {
        return Err(Failure::Verdict(format!(
            "{broken} of {} predictions were exceeded",
            answer.phases.len()
        )));
    }
    Ok(())
}

fn breakdown(file: &Path) -> Result<Breakdown, Failure> {
    Breakdown::parse(&file.display().to_string(), &read_file(file)?).map_err(failure)
}

fn failure(error: RecoveryError) -> Failure {
    match error.remedy() {
        Some(remedy) => Failure::with_help(error, remedy),
        None => Failure::from_error(error),
    }
}

/// The busy host that the arguments describe; none where they say nothing of CPU time.
fn busy_host(arguments: &BusyHostArguments) -> Result<Option<BusyHost>, Failure> {
    let Some(share) = share(arguments)? else {
        return match &arguments.against {
            None => Ok(None),
            Some(file) => Err(Failure::with_help(
                format!(
                    "nothing is said of the CPU time on the host of {}",
                    file.display()
                ),
                "--budget and --period of the servers' reservations, or --neighbours of ordinary \
                 servers",
            )),
        };
    };
    let against = arguments.against.as_deref().map(breakdown);
    Ok(Some(BusyHost {
        share,
        against: against.transpose()?,
        variant: arguments.against_variant.clone(),
    }))
}

fn share(arguments: &BusyHostArguments) -> Result<Option<CpuShare>, Failure> {
    if let (Some(budget), Some(period)) = (arguments.budget, arguments.period) {
        let mut reservation =
            ServerReservation::new(budget, period).map_err(Failure::from_error)?;
        reservation = reservation.held_up_by(arguments.held_up);
        if let Some(used) = arguments.used {
            reservation = reservation.with_used(used);
        }
        if let Some(work) = arguments.work {
            reservation = reservation.with_work(work);
        }
        return Ok(Some(CpuShare::Reserved(reservation)));
    }
    arguments
        .neighbours
        .map(|neighbours| {
            FairShare::beside(neighbours, arguments.weight, arguments.slice)
                .map(CpuShare::Fair)
                .map_err(Failure::from_error)
        })
        .transpose()
}

/// The columns by their names in CSV, with those that only a busy host has.
const COLUMNS: [(&str, &str, bool); 10] = [
    ("variant", "variant", false),
    ("cause", "cause", false),
    ("servers", "servers", false),
    ("phase", "phase", false),
    ("alone_ns", "alone", true),
    ("predicted_ns", "predicted", false),
    ("evidence", "evidence", false),
    ("measured_max_ns", "measured max", false),
    ("recoveries", "recoveries", false),
    ("holds", "holds", false),
];

/// The cells of all columns, with times as `time` writes them.
fn cells(row: &PhaseBound, time: &dyn Fn(Duration) -> String) -> [String; COLUMNS.len()] {
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let holds = row.holds.map(|holds| if holds { "yes" } else { "no" });
    [
        row.case.variant.clone(),
        row.case.cause.clone(),
        row.case.servers.to_string(),
        row.phase.to_owned(),
        or_none(row.alone.map(time)),
        or_none(row.predicted.map(time)),
        or_none(row.evidence.map(|evidence| evidence.to_string())),
        time(row.measured_max),
        row.recoveries.to_string(),
        or_none(holds.map(str::to_owned)),
    ]
}

fn print(answer: &RecoveryAnswer, busy: bool, output: &Output) -> Result<(), Failure> {
    let shown = |index: &usize| busy || !COLUMNS[*index].2;
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(shown).collect();
    let lines = |time: &dyn Fn(Duration) -> String| -> Vec<Vec<String>> {
        let cells = answer.phases.iter().map(|row| cells(row, time));
        cells
            .map(|cells| columns.iter().map(|&at| cells[at].clone()).collect())
            .collect()
    };
    let header: Vec<&str> = columns.iter().map(|&at| COLUMNS[at].1).collect();
    let names: Vec<&str> = columns.iter().map(|&at| COLUMNS[at].0).collect();
    let in_ms = |time: Duration| format!("{:.3} ms", time.as_millis_f64());
    let table = || format!("{}\n", crate::output::table(&header, &lines(&in_ms)));
    output.rows_with(
        table,
        &names,
        &lines(&|time| time.as_nanos().to_string()),
        answer,
    )
}
