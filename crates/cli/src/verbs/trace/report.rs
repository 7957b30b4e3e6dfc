//! `tailbound trace report`: what a recording holds.

use tailbound_trace::RecordingSummary;

use crate::arguments::TraceReportArguments;
use crate::failure::Failure;
use crate::output::{Output, table};

/// Threads and interrupts that a table shows; JSON and CSV have all.
const SHOWN: usize = 20;
const HEADER: [&str; 6] = ["kind", "name", "domain", "time", "count", "longest"];

/// Prints CPU time of threads and interrupts, and losses.
pub fn carry_out(arguments: &TraceReportArguments, output: &Output) -> Result<(), Failure> {
    let recording = super::open(&arguments.file, output)?;
    let failed = |cause| Failure::error(format!("{}: {cause}", arguments.file.display()));
    let summary = RecordingSummary::of(&recording).map_err(failed)?;
    let all = rows(&summary, usize::MAX);
    let for_people = || {
        let events: u64 = summary.events.values().sum();
        let mut text = format!("{} of {events} events", summary.length);
        match summary.lost + summary.gaps {
            0 => text.push_str(", none lost\n"),
            _ => text.push_str(&format!(", {} lost, {} gaps\n", summary.lost, summary.gaps)),
        }
        for cpu in &summary.cpus {
            text.push_str(&format!(
                "CPU {}: busy {}, interrupts {}, {} switches, {} late samples up to {}\n",
                cpu.cpu,
                cpu.busy,
                cpu.interrupts,
                cpu.switches,
                cpu.late_samples,
                cpu.latest_sample
            ));
        }
        format!("{text}{}\n", table(&HEADER, &rows(&summary, SHOWN)))
    };
    output
        .exporting(&arguments.export)
        .rows_with(for_people, &HEADER, &all, &summary)
}

fn rows(summary: &RecordingSummary, most: usize) -> Vec<Vec<String>> {
    let threads = summary.threads.iter().take(most).map(|thread| {
        vec![
            "thread".into(),
            format!("{} {}", thread.name, thread.thread),
            thread.domain.clone().unwrap_or_default(),
            thread.cpu_time.to_string(),
            thread.switches.to_string(),
            String::new(),
        ]
    });
    let interrupts = summary.interrupts.iter().take(most).map(|interrupt| {
        vec![
            "interrupt".into(),
            interrupt.name.clone(),
            String::new(),
            interrupt.cpu_time.to_string(),
            interrupt.count.to_string(),
            interrupt.longest.to_string(),
        ]
    });
    let locks = summary.lock_waits.iter().map(|waits| {
        vec![
            "waits for locks of the kernel".into(),
            format!("{} ({} locks)", waits.kind, waits.locks),
            String::new(),
            waits.waited.to_string(),
            waits.count.to_string(),
            waits.longest.to_string(),
        ]
    });
    threads.chain(interrupts).chain(locks).collect()
}
