//! The schedule that `tailbound simulate --export-schedule` leaves: tables of jobs, traces for Perfetto, a
//! picture.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use tailbound_report::{SchedulePage, SchedulePicture, render_schedule_html};
use tailbound_simulator::host::{HostQuery, HostSimulation, lay_out, simulate_layout};
use tailbound_simulator::traces::{BLOCKS, JobTable, ScheduleTrace, ScheduleWindow, Tee};
use tailbound_time::Duration;

use crate::failure::Failure;

/// How long the picture is if nobody says so.
pub const SHOWN: Duration = Duration::from_millis(100);

type Recording = Tee<JobTable<File>, Tee<ScheduleTrace<BufWriter<File>>, ScheduleWindow>>;

/// Simulates a host and writes its schedule into a folder: `HOST.cpu0.jobs.csv` and
/// `HOST.cpu0.perfetto-trace` for the plan of CPU 0, and `HOST.schedule.html` with a picture of each
/// plan between two instants.
///
/// # Errors
/// If the host cannot be simulated, the picture shows nothing, or a file cannot be written.
pub fn simulate_recorded(
    query: &HostQuery<'_>,
    folder: &Path,
    shown: (Duration, Duration),
) -> Result<HostSimulation, Failure> {
    let layout = lay_out(query.description, query.host, query.inputs);
    let layout = layout.map_err(Failure::from_error)?;
    let failed = |error: io::Error| {
        let place = folder.display();
        Failure::error(format!("cannot write the schedule to {place}: {error}"))
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let titles = layout.plans.iter().map(|laid| laid.title(query.host));
    let names: Vec<String> = titles.collect();
    let mut recordings = Vec::new();
    for (laid, name) in layout.plans.iter().zip(&names) {
        let setting = laid.setting();
        let (from, until) = (shown.0.as_nanos(), shown.1.as_nanos());
        let window = ScheduleWindow::new(setting.clone(), from, until, BLOCKS);
        let window = window.map_err(Failure::from_error)?;
        let file = |suffix: &str| File::create(folder.join(format!("{name}.{suffix}")));
        let jobs = JobTable::new(setting.clone(), file("jobs.csv").map_err(failed)?);
        let trace = BufWriter::new(file("perfetto-trace").map_err(failed)?);
        let trace = ScheduleTrace::new(setting, trace);
        recordings.push(Tee(jobs, Tee(trace, window)));
    }
    let simulation =
        simulate_layout(query, &layout, &mut recordings).map_err(Failure::from_error)?;
    let mut pictures = Vec::new();
    for (recording, title) in recordings.into_iter().zip(names) {
        pictures.push(finish(recording, title, simulation.ended_ns).map_err(failed)?);
    }
    let page = SchedulePage {
        title: format!("{}: {}", query.description.name, query.host),
        tailbound_version: env!("CARGO_PKG_VERSION").to_owned(),
        pictures,
    };
    let file = folder.join(format!("{}.schedule.html", query.host));
    fs::write(file, render_schedule_html(&page)).map_err(failed)?;
    Ok(simulation)
}

fn finish(recording: Recording, title: String, end_ns: u64) -> io::Result<SchedulePicture> {
    let Tee(jobs, Tee(trace, window)) = recording;
    jobs.finish(end_ns)?.sync_all()?;
    trace.finish(end_ns)?.into_inner()?.sync_all()?;
    Ok(SchedulePicture {
        title,
        slice: window.finish(end_ns),
    })
}
