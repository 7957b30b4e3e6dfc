//! The results of `tailbound trace locks`, as tables and documents.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::process::Command;

use serde::Serialize;
use tailbound_lock_trace::{
    HoldTimes, KindSummary, LockKind, LockSummary, LockTally, MappedModules, ModulePlace,
    ProcessAddress,
};
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::{Output, table};

/// The time that the study of 2007 counts sections within.
const SHORT: Duration = Duration::from_micros(5);
/// Bytes that no function or variable of the kernel with locks is longer than.
const LONGEST_SYMBOL: u64 = 1 << 16;

/// How well the events were read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TraceQuality {
    /// Events.
    pub events: u64,
    /// Events that were lost to full buffers.
    pub lost: u64,
    /// Events that were being written when their writers were killed.
    pub unfinished: u64,
    /// The bound of the error of instants in nanoseconds.
    pub clock_error_ns: u64,
}

/// Durations of critical sections, or of waits.
#[derive(Debug, Serialize)]
struct HoldRow {
    count: u64,
    mean_ns: u64,
    p50_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    longest_ns: u64,
    share_within_5us: Option<f64>,
}

impl HoldRow {
    fn new(times: &HoldTimes) -> Self {
        Self {
            count: times.count(),
            mean_ns: times.mean_ns().round() as u64,
            p50_ns: times.quantile_ns(0.5),
            p95_ns: times.quantile_ns(0.95),
            p99_ns: times.quantile_ns(0.99),
            longest_ns: times.longest_ns(),
            share_within_5us: times.share_within(SHORT.as_nanos()),
        }
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let share = self
            .share_within_5us
            .map_or(String::new(), |it| format!("{:.1}%", it * 100.0));
        let times = [
            self.mean_ns,
            self.p50_ns,
            self.p95_ns,
            self.p99_ns,
            self.longest_ns,
        ];
        let mut cells = vec![name.into(), self.count.to_string()];
        cells.extend(times.map(|ns| Duration::from_nanos(ns).to_string()));
        cells.push(share);
        cells
    }
}

/// Critical sections of a kind of lock.
#[derive(Debug, Serialize)]
struct KindRow {
    kind: LockKind,
    /// Sections by nesting depth, in locks of any kind.
    depths: Vec<u64>,
    holds: HoldRow,
}

impl KindRow {
    fn new(kind: LockKind, summary: &KindSummary) -> Self {
        Self {
            kind,
            depths: summary.depths.clone(),
            holds: HoldRow::new(&summary.holds),
        }
    }

    fn cells(&self) -> Vec<String> {
        let share = |sections: u64| {
            let share = sections as f64 / self.holds.count.max(1) as f64;
            format!("{:.2}%", share * 100.0)
        };
        let at = |depth: usize| self.depths.get(depth).copied().unwrap_or(0);
        let deeper = self.depths.iter().skip(2).sum();
        let mut cells = vec![self.kind.name().into(), self.holds.count.to_string()];
        cells.extend([at(0), at(1), deeper].map(share));
        cells.push(self.depths.len().saturating_sub(1).to_string());
        cells.push(Duration::from_nanos(self.holds.mean_ns).to_string());
        let short = self.holds.share_within_5us.unwrap_or(0.0);
        cells.push(format!("{:.1}%", short * 100.0));
        cells
    }
}

/// Critical sections of a lock or of a place.
#[derive(Debug, Serialize)]
struct TallyRow {
    of: &'static str,
    name: String,
    kind: LockKind,
    sections: u64,
    contended: u64,
    waited_ns: u64,
    longest_wait_ns: u64,
    mean_hold_ns: u64,
    longest_hold_ns: u64,
    is_shared: bool,
}

impl TallyRow {
    const HEADER: [&'static str; 10] = [
        "of",
        "name",
        "kind",
        "sections",
        "contended",
        "waited_ns",
        "longest_wait_ns",
        "mean_hold_ns",
        "longest_hold_ns",
        "is_shared",
    ];

    fn new(of: &'static str, name: String, tally: &LockTally) -> Self {
        Self {
            of,
            name,
            kind: tally.kind,
            sections: tally.sections,
            contended: tally.contended,
            waited_ns: tally.waited_ns,
            longest_wait_ns: tally.longest_wait_ns,
            mean_hold_ns: tally.held_ns / tally.sections.max(1),
            longest_hold_ns: tally.longest_hold_ns,
            is_shared: tally.is_shared,
        }
    }

    fn csv(&self) -> Vec<String> {
        let numbers = [
            self.sections,
            self.contended,
            self.waited_ns,
            self.longest_wait_ns,
            self.mean_hold_ns,
            self.longest_hold_ns,
        ];
        let mut cells = vec![self.of.into(), self.name.clone(), self.kind.name().into()];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.push(self.is_shared.to_string());
        cells
    }

    fn cells(&self) -> Vec<String> {
        let time = |ns| Duration::from_nanos(ns).to_string();
        vec![
            self.name.clone(),
            self.kind.name().into(),
            self.sections.to_string(),
            self.contended.to_string(),
            time(self.waited_ns),
            time(self.longest_wait_ns),
            time(self.mean_hold_ns),
            time(self.longest_hold_ns),
        ]
    }
}

/// The results of a trace of locks.
#[derive(Debug, Serialize)]
pub struct LockReport {
    #[serde(flatten)]
    reading: TraceQuality,
    sections: u64,
    incomplete: u64,
    contended: u64,
    /// Sections by nesting depth.
    depths: Vec<u64>,
    holds: HoldRow,
    outermost_holds: HoldRow,
    waits: HoldRow,
    kinds: Vec<KindRow>,
    /// The longest section of a lock that several threads took: the blocking by it, as far as it was seen.
    longest_shared_hold_ns: Option<u64>,
    locks: Vec<TallyRow>,
    sites: Vec<TallyRow>,
}

impl LockReport {
    /// The report of a study, with addresses as places in the files of each process.
    pub fn new(
        summary: LockSummary,
        reading: TraceQuality,
        modules: &BTreeMap<u32, MappedModules>,
    ) -> Self {
        let place = |at: ProcessAddress| modules.get(&at.process)?.place(at.address);
        let locks = summary.locks.iter().map(|(at, tally)| {
            let name = match place(*at) {
                Some(place) => static_name(&place),
                None => format!("{}:{:#x}", at.process, at.address),
            };
            TallyRow::new("lock", name, tally)
        });
        let locks = locks.collect();
        let sites = sites(&summary, place);
        Self::of_rows(summary, reading, locks, sites)
    }

    /// The report of a study of the kernel, with addresses as symbols.
    pub fn of_kernel(
        summary: LockSummary,
        reading: TraceQuality,
        symbols: &BTreeMap<u64, String>,
    ) -> Self {
        let rows = |of: &'static str, tallies: &[(ProcessAddress, LockTally)]| {
            let row = |(at, tally): &(ProcessAddress, LockTally)| {
                TallyRow::new(of, symbol_name(symbols, at.address), tally)
            };
            tallies.iter().map(row).collect()
        };
        let locks = rows("lock", &summary.locks);
        let sites = rows("place", &summary.sites);
        Self::of_rows(summary, reading, locks, sites)
    }

    fn of_rows(
        summary: LockSummary,
        reading: TraceQuality,
        locks: Vec<TallyRow>,
        sites: Vec<TallyRow>,
    ) -> Self {
        let kinds = summary.kinds.iter();
        let kinds = kinds.map(|(kind, summary)| KindRow::new(*kind, summary));
        Self {
            reading,
            sections: summary.sections(),
            incomplete: summary.incomplete,
            contended: summary.contended,
            holds: HoldRow::new(&summary.holds),
            outermost_holds: HoldRow::new(&summary.outermost_holds),
            waits: HoldRow::new(&summary.waits),
            kinds: kinds.collect(),
            longest_shared_hold_ns: summary.longest_shared_hold_ns(),
            locks,
            sites,
            depths: summary.depths,
        }
    }

    /// Whether no lock was seen at all.
    pub fn is_empty(&self) -> bool {
        self.reading.events == 0
    }

    /// Prints the tables with at most `rows` locks and places, or all of them as a document.
    pub fn print(&self, rows: usize, output: &Output) -> Result<(), Failure> {
        let all = self.locks.iter().chain(&self.sites);
        let csv: Vec<_> = all.map(TallyRow::csv).collect();
        output.rows_with(|| self.tables(rows), &TallyRow::HEADER, &csv, self)
    }

    fn tables(&self, rows: usize) -> String {
        let mut text = String::new();
        let reading = &self.reading;
        let _ = writeln!(
            text,
            "{} critical sections; {} incomplete ones left out, {} of {} events lost\n",
            self.sections,
            self.incomplete,
            reading.lost,
            reading.events + reading.lost
        );
        let depths: Vec<_> = (self.depths.iter().enumerate())
            .map(|(depth, sections)| {
                let share = *sections as f64 / self.sections.max(1) as f64;
                vec![
                    depth.to_string(),
                    sections.to_string(),
                    format!("{:.2}%", share * 100.0),
                ]
            })
            .collect();
        let _ = writeln!(
            text,
            "{}\n",
            table(&["nesting depth", "sections", "share"], &depths)
        );
        text.push_str(&self.section_tables());
        for (name, tallies) in [("lock", &self.locks), ("place", &self.sites)] {
            let header = [
                name,
                "kind",
                "sections",
                "contended",
                "waited",
                "longest wait",
                "mean hold",
                "longest hold",
            ];
            let cells: Vec<_> = tallies.iter().take(rows).map(TallyRow::cells).collect();
            let _ = writeln!(text, "{}", table(&header, &cells));
            if tallies.len() > rows {
                let _ = writeln!(text, "and {} more with shorter waits", tallies.len() - rows);
            }
            text.push('\n');
        }
        text.push_str(&self.stanza());
        text
    }

    /// Sections by the kind of their lock, and their durations.
    fn section_tables(&self) -> String {
        let mut text = String::new();
        let header = [
            "kind",
            "sections",
            "depth 0",
            "depth 1",
            "deeper",
            "deepest",
            "mean hold",
            "within 5us",
        ];
        let kinds: Vec<_> = self.kinds.iter().map(KindRow::cells).collect();
        let _ = writeln!(text, "{}\n", table(&header, &kinds));
        let times = [
            self.holds.cells("held"),
            self.outermost_holds.cells("held, outermost"),
            self.waits.cells("waited for"),
        ];
        let header = [
            "time",
            "count",
            "mean",
            "p50",
            "p95",
            "p99",
            "longest",
            "within 5us",
        ];
        let _ = writeln!(text, "{}\n", table(&header, &times));
        text
    }

    /// The key of a task by which `analyze` takes the blocking.
    fn stanza(&self) -> String {
        let Some(longest) = self.longest_shared_hold_ns else {
            return "No lock was taken by several threads: nothing blocks.\n".into();
        };
        format!(
            "# For `tailbound analyze`, in a task of the description that shares these locks with tasks of lower\n\
             # priorities: the longest section that was seen, which is no bound.\n\
             blocking = \"{}\"\n",
            Duration::from_nanos(longest)
        )
    }
}

/// Sections by place, the same place of several processes together.
fn sites(
    summary: &LockSummary,
    place: impl Fn(ProcessAddress) -> Option<ModulePlace>,
) -> Vec<TallyRow> {
    let mut by_place: HashMap<ModulePlace, LockTally> = HashMap::new();
    let mut rows = Vec::new();
    for (at, tally) in &summary.sites {
        match place(*at) {
            Some(place) => {
                let merged = by_place.entry(place);
                merged.and_modify(|it| it.merge(tally)).or_insert(*tally);
            }
            None => {
                let name = format!("{}:{:#x}", at.process, at.address);
                rows.push(TallyRow::new("place", name, tally));
            }
        }
    }
    let mut places: Vec<_> = by_place.into_iter().collect();
    places.sort_by(|one, other| one.0.cmp(&other.0));
    let symbols = symbols(places.iter().map(|(place, _)| place));
    rows.extend(places.iter().map(|(place, tally)| {
        let name = symbols
            .get(place)
            .cloned()
            .unwrap_or_else(|| static_name(place));
        TallyRow::new("place", name, tally)
    }));
    rows.sort_by_key(|row| {
        (
            u64::MAX - row.waited_ns,
            u64::MAX - row.sections,
            row.name.clone(),
        )
    });
    rows
}

/// The symbol at an address or shortly before it, with the distance; the address itself without one.
fn symbol_name(symbols: &BTreeMap<u64, String>, address: u64) -> String {
    let before = symbols.range(..=address).next_back();
    // Memory behind the last symbol belongs to none.
    let near = before.filter(|(start, _)| address - **start < LONGEST_SYMBOL);
    match near {
        Some((start, name)) if *start == address => name.clone(),
        Some((start, name)) => format!("{name}+{:#x}", address - start),
        None => format!("{address:#x}"),
    }
}

fn static_name(place: &ModulePlace) -> String {
    let file = place.path.rsplit('/').next().unwrap_or(&place.path);
    format!("{file}+{:#x}", place.offset)
}

/// The names of functions, by addr2line; without it there are none.
fn symbols<'a>(places: impl Iterator<Item = &'a ModulePlace>) -> HashMap<ModulePlace, String> {
    let mut by_path: BTreeMap<&str, Vec<&ModulePlace>> = BTreeMap::new();
    for place in places {
        by_path.entry(&place.path).or_default().push(place);
    }
    let mut names = HashMap::new();
    for (path, places) in by_path {
        if is_linked_to_an_address(path) {
            continue;
        }
        // A return address lies behind the call.
        let addresses = places
            .iter()
            .map(|place| format!("{:#x}", place.offset.saturating_sub(1)));
        let command = Command::new("addr2line")
            .args(["-C", "-f", "-e", path])
            .args(addresses)
            .output();
        let Ok(output) = command else {
            return names;
        };
        // Two lines each: the function, and the line of the source.
        let text = String::from_utf8_lossy(&output.stdout);
        for (place, function) in places.into_iter().zip(text.lines().step_by(2)) {
            if function != "??" {
                names.insert(
                    place.clone(),
                    format!("{function} ({})", static_name(place)),
                );
            }
        }
    }
    names
}

/// Whether a program is linked to run at one address (ELF, ET_EXEC): its offsets are no addresses of the file.
fn is_linked_to_an_address(path: &str) -> bool {
    let mut start = [0; 18];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start[16] == 2
}
