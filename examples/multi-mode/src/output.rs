//! Results as tables, JSON and a picture.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::case::Case;
use crate::counts::Jobs;
use crate::cpus::{HOST_CPUS, Row};
use crate::phases::{Phase, Run};

/// Everything.
#[derive(Serialize)]
pub struct Results {
    /// The version of this format.
    pub schema_version: u32,
    /// The seed of all cases.
    pub seed: u64,
    /// CPUs needed, of random cases.
    pub cpus: Vec<Row>,
    /// The executed part.
    pub executed: Option<Executed>,
    /// Why there is none.
    pub not_executed: Option<String>,
}

/// What was executed.
#[derive(Serialize)]
pub struct Executed {
    /// The case.
    pub case: Case,
    /// Whether the first domain was a virtual machine.
    pub virtual_machine: bool,
    /// What `tailbound check` says of each set-up.
    pub checks: Checks,
    /// The CPUs that the worst case would need.
    pub worst_case_cpus: f64,
    /// What ran.
    pub runs: Vec<Run>,
}

/// What `tailbound check` says of one set-up.
#[derive(Serialize)]
pub struct Checked {
    /// Whether it would be applied.
    pub fits: bool,
    /// Warnings, and why not.
    pub said: String,
}

/// What `tailbound check` says of each set-up.
#[derive(Serialize)]
pub struct Checks {
    /// One reservation for both modes, from the initial one.
    pub initial_mode: Checked,
    /// One reservation for both modes, from the worst of them.
    pub worst_case: Checked,
    /// One for each mode.
    pub modes: Checked,
}

/// Writes everything into a folder.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, results: &Results) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let json = serde_json::to_string_pretty(results)?;
    fs::write(folder.join("results.json"), json + "\n")?;
    fs::write(folder.join("cpus.csv"), csv(&results.cpus))?;
    fs::write(folder.join("cpus.svg"), svg(&results.cpus))
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(text);
}

fn csv(rows: &[Row]) -> String {
    let mut out = "case,count,mode0,mode1,worst_case\n".to_owned();
    for row in rows {
        let [first, second] = row.modes;
        let worst = row.worst_case;
        let counts = [
            ("at-least", first.at_least, second.at_least, worst.at_least),
            (
                "partitioned",
                first.partitioned,
                second.partitioned,
                worst.partitioned,
            ),
            ("global", first.global, second.global, worst.global),
        ];
        for (name, first, second, worst) in counts {
            put(
                &mut out,
                format_args!("{},{name},{first},{second},{worst}\n", row.case),
            );
        }
    }
    out
}

const LEFT: f64 = 50.0;
const TOP: f64 = 60.0;
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;

/// Figure 2.4: a column for each case, by the test of global EDF; dots for what partitioning needs.
fn svg(rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.worst_case.global).max();
    let most = f64::from(most.unwrap_or(1).max(HOST_CPUS + 1));
    let y = |cpus: u32| TOP + HEIGHT * (1.0 - f64::from(cpus) / most);
    let step = (WIDTH - LEFT - 20.0) / rows.len().max(1) as f64;
    let bottom = TOP + HEIGHT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} 420\" role=\"img\" \
         font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
         <title>CPUs that are needed</title><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">CPUs that are needed, by case</text>\
         <text x=\"{LEFT}\" y=\"44\" fill=\"#5b6470\">grey: worst case of each machine; blue: the larger of \
         both modes; bars: global EDF, dots: partitioned</text>"
    );
    for (place, row) in rows.iter().enumerate() {
        let modes = row.modes.map(|mode| (mode.global, mode.partitioned));
        let mode = modes
            .into_iter()
            .fold((0, 0), |(a, b), (c, d)| (a.max(c), b.max(d)));
        let worst = (row.worst_case.global, row.worst_case.partitioned);
        let columns = [(worst, "#aab3bf", "#1b1f24"), (mode, "#3f9bd1", "#00496f")];
        for (column, ((bar, dot), fill, dark)) in columns.into_iter().enumerate() {
            let x = LEFT + step * (place as f64 + 0.1 + 0.4 * column as f64);
            let (top, width) = (y(bar), step * 0.38);
            put(
                &mut out,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>\
                     <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{dark}\"/>",
                    bottom - top,
                    x + width / 2.0,
                    y(dot)
                ),
            );
        }
    }
    for cpus in (0..=most as u32).step_by(5) {
        let height = y(cpus);
        put(
            &mut out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{cpus}</text>",
                LEFT - 8.0,
                height + 4.0
            ),
        );
    }
    let host = y(HOST_CPUS);
    put(
        &mut out,
        format_args!(
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{host:.1}\" y2=\"{host:.1}\" stroke=\"#d55e00\"/>\
             <line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"#1b1f24\"/></svg>\n"
        ),
    );
    out
}

/// Prints what CPUs are needed.
pub fn print_cpus(rows: &[Row]) {
    println!(
        "CPUs needed, {} random cases of 12 machines with 3 virtual CPUs:",
        rows.len()
    );
    println!(
        "{:44} {:>13} {:>13} {:>13} {:>12}",
        "", "mode0", "mode1", "worst case", "fit 15 CPUs"
    );
    type Count = fn(&crate::cpus::Needed) -> u32;
    let counts: [(&str, Count); 3] = [
        ("sum of bandwidths, at least", |one| one.at_least),
        ("partitioned, first fit decreasing", |one| one.partitioned),
        ("global EDF, density test (as in the thesis)", |one| {
            one.global
        }),
    ];
    for (name, count) in counts {
        let range = |of: &dyn Fn(&Row) -> u32| {
            let all = || rows.iter().map(of);
            let mean = f64::from(all().sum::<u32>()) / rows.len().max(1) as f64;
            let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
            format!("{least}-{most} ({mean:.1})")
        };
        let fit = rows
            .iter()
            .filter(|row| count(&row.worst_case) <= HOST_CPUS);
        println!(
            "{name:44} {:>13} {:>13} {:>13} {:>5} of {:>3}",
            range(&|row| count(&row.modes[0])),
            range(&|row| count(&row.modes[1])),
            range(&|row| count(&row.worst_case)),
            fit.count(),
            rows.len()
        );
    }
}

/// Prints what ran.
pub fn print_executed(executed: &Executed) {
    let names: Vec<&str> = executed.case.domains.iter().map(|one| one.name).collect();
    let checks = &executed.checks;
    let worst = format!(
        "from the worst mode of each ({:.3} CPUs)",
        executed.worst_case_cpus
    );
    for (name, checked) in [
        ("from the initial mode", &checks.initial_mode),
        (worst.as_str(), &checks.worst_case),
        ("of each mode", &checks.modes),
    ] {
        let fits = if checked.fits { "fits" } else { "DOES NOT FIT" };
        println!("\n`tailbound check`, reservations {name}: {fits}");
        for line in checked
            .said
            .lines()
            .filter(|line| !line.ends_with(": well-formed"))
        {
            println!("  {line}");
        }
    }
    println!(
        "\nMissed deadlines of {} ({}):",
        names.join(", "),
        match executed.virtual_machine {
            true => "the first is a virtual machine",
            false => "all are processes",
        }
    );
    println!(
        "{:13} {:11} {:>14} {:>14} {:>14} {:>14}  {:>10} {:>10} {:>10}",
        "reservations",
        "policy",
        "in mode0",
        "in changes",
        "in mode1",
        "all phases",
        "took, ms",
        "in force",
        "disturbed"
    );
    for run in &executed.runs {
        println!("{}", line(run));
    }
}

fn line(run: &Run) -> String {
    let misses = |jobs: Jobs| format!("{} of {}", jobs.missed, jobs.jobs);
    let steady =
        |mode: &str| misses(run.jobs(|phase: &Phase| phase.change.is_none() && phase.mode == mode));
    let changes = misses(run.jobs(|phase| phase.change.is_some()));
    let mean_ms = |of: &dyn Fn(&crate::phases::Change) -> u64| {
        let all: Vec<u64> = run.changes().map(of).collect();
        all.iter().sum::<u64>() as f64 / 1e6 / all.len().max(1) as f64
    };
    format!(
        "{:13} {:11} {:>14} {:>14} {:>14} {:>14}  {:>10.2} {:>10.2} {:>4} of {:>2}",
        run.set_up,
        run.policy,
        steady("mode0"),
        changes,
        steady("mode1"),
        misses(run.all_jobs()),
        mean_ms(&|change| change.latency_ns),
        mean_ms(&|change| change.in_force_after_ns),
        run.phases.iter().filter(|phase| phase.disturbed).count(),
        run.phases.len()
    )
}
