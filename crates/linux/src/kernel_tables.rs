//! The kernel's own tables that a reader of its events needs.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// Timer functions of the kernel that give budgets back: of quotas, of SCHED_DEADLINE, of real-time groups.
const REPLENISHING_TIMERS: [&str; 3] = [
    "sched_cfs_period_timer",
    "dl_task_timer",
    "sched_rt_period_timer",
];

/// The addresses of the functions of timers that give budgets back; none where the kernel hides addresses.
///
/// # Errors
/// If /proc cannot be read.
pub fn replenishing_timers() -> io::Result<BTreeMap<u64, String>> {
    fs::read_to_string("/proc/kallsyms").map(|text| timer_functions(&text))
}

/// The functions and variables of the kernel by their addresses; none where the kernel hides addresses.
///
/// # Errors
/// If /proc cannot be read.
pub fn symbols() -> io::Result<BTreeMap<u64, String>> {
    fs::read_to_string("/proc/kallsyms").map(|text| symbols_of(&text))
}

/// The names of the devices of interrupt lines, by their numbers.
///
/// # Errors
/// If /proc cannot be read.
pub fn interrupt_names() -> io::Result<BTreeMap<u32, String>> {
    fs::read_to_string("/proc/interrupts").map(|text| interrupt_lines(&text))
}

fn timer_functions(kallsyms: &str) -> BTreeMap<u64, String> {
    let mut symbols = symbols_of(kallsyms);
    symbols.retain(|_, name| REPLENISHING_TIMERS.contains(&name.as_str()));
    symbols
}

fn symbols_of(kallsyms: &str) -> BTreeMap<u64, String> {
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        // The compiler may have made a part or a copy of the function.
        let plain = name.split('.').next().unwrap_or(name);
        let address = u64::from_str_radix(address, 16).ok()?;
        (address != 0).then(|| (address, plain.to_string()))
    };
    kallsyms.lines().filter_map(symbol).collect()
}

fn interrupt_lines(text: &str) -> BTreeMap<u32, String> {
    let mut lines = text.lines();
    let cpus = lines
        .next()
        .map_or(0, |header| header.split_whitespace().count());
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_suffix(':')?.parse().ok()?;
        let rest: Vec<&str> = words.skip(cpus).collect();
        // The chip, the hardware's number, and behind them who asked for the line.
        let name = rest.get(2..).filter(|names| !names.is_empty())?.join(" ");
        Some((number, name))
    };
    lines.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_taken_by_name_and_hidden_addresses_are_not() {
        let text = "ffffffff81112340 t sched_cfs_period_timer\nffffffff81112350 t dl_task_timer.cold\n\
                    0000000000000000 t sched_rt_period_timer\nffffffff81112360 t tick_nohz_handler\nrubbish\n";
        let functions: Vec<(u64, String)> = timer_functions(text).into_iter().collect();
        assert_eq!(
            functions,
            [
                (0xffff_ffff_8111_2340, "sched_cfs_period_timer".into()),
                (0xffff_ffff_8111_2350, "dl_task_timer".into()),
            ]
        );
    }

    #[test]
    fn lines_have_the_names_of_their_devices() {
        let text = "           CPU0       CPU1\n  4:        120          0   IO-APIC   4-edge      ttyS0\n \
                    26:          0        511   PCI-MSIX-0000:00:03.0   1-edge      virtio1-input.0, x\n\
                    LOC:     123456     654321   Local timer interrupts\n";
        let lines = interrupt_lines(text);
        assert_eq!(lines[&4], "ttyS0");
        assert_eq!(lines[&26], "virtio1-input.0, x");
        assert_eq!(lines.len(), 2);
    }
}
