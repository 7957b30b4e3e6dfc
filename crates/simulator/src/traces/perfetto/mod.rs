//! A schedule as a trace that Perfetto opens.
//!
//! The format is Perfetto's own, protocol buffers of `TracePacket`, and not the JSON of Chrome's trace
//! events, which it opens as well: JSON has times in microseconds as floating-point numbers, so that
//! slices which touch may overlap by a nanosecond and are dropped then; its counters and overlapping
//! slices need processes and threads which do not exist; and a file is several times as long.

mod packets;
pub(super) mod timeline;

use std::collections::BTreeMap;
use std::io;

use tailbound_perfetto::{Annotation, EventName, PacketEvent};

use super::balance::{Balances, CurveSegment};
use super::open_jobs::{OpenJob, OpenJobs};
use super::setting::Setting;
use crate::hierarchy::{Completion, Job, Piece, Sink};
use packets::{Packets, Track};

/// So many jobs of one task that wait or run at once have a slice of their own each.
pub const LANES: usize = 16;

const MISSED: &str = "deadline missed";

/// Writes a schedule as a trace in Perfetto's format, for <https://ui.perfetto.dev> and its trace
/// processor.
///
/// - Under "CPUs" a track per CPU: slices named by the task that ran, and "kernel" for what the
///   operating system took.
/// - Under "Reservations" a track per reservation, with an instant event where its budget came back
///   ("replenished") and where work had to wait for it ("ran out"), and below it, where it has a budget, a
///   counter in nanoseconds: "budget left", or "used since replenishment" for a periodic, polling or
///   sporadic server, of which the calls do not tell what is left. Where the grid is idle a replenishment is told when
///   work comes; the counter of a deferrable server has it at its grid point.
/// - Under "Tasks" a track per task, with an instant event for each release and each deadline that was
///   missed (at the deadline), and below it slices from release to completion. Up to [`LANES`] jobs of
///   a task have slices at a time; those beyond are to be seen where they run. Jobs that are not done
///   at the end have slices without an end.
///
/// A job's slices are joined by a flow. Times are nanoseconds from the start of the simulation. Kept in
/// memory are the jobs under way, and one slice per CPU. Events of different tracks are not in order
/// of time in the file; Perfetto sorts them.
#[derive(Debug)]
pub struct ScheduleTrace<W: io::Write> {
    out: Packets<W>,
    setting: Setting,
    jobs: OpenJobs,
    balances: Balances,
    /// What each CPU does, as far as it is known.
    held: BTreeMap<usize, OpenSlice>,
    /// The jobs with a slice on each of a task's lanes.
    lanes: BTreeMap<usize, [Option<u64>; LANES]>,
}

/// A slice of a CPU that may go on.
#[derive(Clone, Copy, Debug)]
struct OpenSlice {
    /// Task, number and the job's count; none is the operating system.
    job: Option<(usize, u64, u64)>,
    from: u64,
    until: u64,
}

impl<W: io::Write> ScheduleTrace<W> {
    /// A trace that is written to `out`, in small pieces: give it something that buffers.
    pub fn new(setting: Setting, out: W) -> Self {
        let mut trace = Self {
            out: Packets::new(out),
            balances: Balances::new(&setting),
            setting,
            jobs: OpenJobs::default(),
            held: BTreeMap::new(),
            lanes: BTreeMap::new(),
        };
        trace.describe();
        trace
    }

    /// Writes what was under way when the simulation ended, `end` in nanoseconds, and hands back what was
    /// written to.
    ///
    /// # Errors
    /// The first error of writing, after which nothing more was written.
    pub fn finish(mut self, end: u64) -> io::Result<W> {
        for (cpu, held) in std::mem::take(&mut self.held) {
            self.write_slice(cpu, held);
        }
        let jobs = std::mem::take(&mut self.jobs);
        for (task, job) in jobs.iter() {
            if let Some(deadline) = self.setting.deadline_of(task, job.release)
                && deadline <= end
            {
                self.write_instant(Track::Task(task), deadline, MISSED, Some(job.number));
            }
        }
        for reservation in 1..=self.setting.reservations().len() {
            self.tell(reservation, |balances, tell| {
                balances.pass(reservation, end, tell)
            });
        }
        self.out.finish()
    }

    /// Lets the curve of a reservation go on, and counts where it goes.
    fn tell(
        &mut self,
        reservation: usize,
        go_on: impl FnOnce(&mut Balances, &mut dyn FnMut(CurveSegment)),
    ) {
        let Some((kind, _)) = self.balances.now(reservation) else {
            return;
        };
        let uuid = self
            .out
            .uuid(Track::Balance(reservation, kind), &self.setting);
        let out = &mut self.out;
        go_on(&mut self.balances, &mut |stretch: CurveSegment| {
            out.count(uuid, stretch.from, stretch.first);
            out.count(uuid, stretch.until, stretch.last);
        });
    }

    /// All tracks, in the order in which they stand.
    fn describe(&mut self) {
        for cpu in 0..self.setting.cpus() {
            self.out.uuid(Track::Cpu(cpu), &self.setting);
        }
        for reservation in 1..=self.setting.reservations().len() {
            self.out
                .uuid(Track::Reservation(reservation), &self.setting);
            if let Some((kind, level)) = self.balances.now(reservation) {
                let track = Track::Balance(reservation, kind);
                let uuid = self.out.uuid(track, &self.setting);
                self.out.count(uuid, 0, level);
            }
        }
        for task in 0..self.setting.tasks().len() {
            self.out.uuid(Track::Task(task), &self.setting);
        }
    }

    /// The CPU does something else from now on, or goes on with what it does.
    fn hold(&mut self, cpu: usize, next: OpenSlice) {
        if let Some(held) = self.held.get_mut(&cpu) {
            if held.job == next.job && held.until == next.from {
                held.until = next.until;
                return;
            }
            let done = std::mem::replace(held, next);
            self.write_slice(cpu, done);
        } else {
            self.held.insert(cpu, next);
        }
    }

    fn write_slice(&mut self, cpu: usize, held: OpenSlice) {
        let track = self.out.uuid(Track::Cpu(cpu), &self.setting);
        let name = held.job.map_or_else(
            || "kernel".into(),
            |(task, _, _)| self.setting.task_name(task),
        );
        let begin = PacketEvent {
            name: EventName::Known(name),
            flow: held.job.map(|(_, _, id)| id).filter(|id| *id > 0),
            annotations: held
                .job
                .map(|(_, number, _)| Annotation::Number("job", number))
                .into_iter()
                .collect(),
        };
        self.out.begin(track, held.from, begin);
        self.out.end(track, held.until, Vec::new());
    }

    fn write_instant(&mut self, track: Track, at: u64, name: &str, number: Option<u64>) {
        let uuid = self.out.uuid(track, &self.setting);
        let event = PacketEvent {
            name: EventName::Known(name.to_owned()),
            flow: None,
            annotations: number
                .map(|number| Annotation::Number("job", number))
                .into_iter()
                .collect(),
        };
        self.out.instant(uuid, at, event);
    }

    /// Finds the lane of a task that `holder` has, and gives it to another.
    fn hand_over(&mut self, task: usize, holder: Option<u64>, to: Option<u64>) -> Option<u64> {
        let lanes = self.lanes.entry(task).or_default();
        let lane = lanes.iter().position(|lane| *lane == holder)?;
        lanes[lane] = to;
        Some(self.out.uuid(Track::Lane(task, lane), &self.setting))
    }

    fn open_slice(&mut self, job: &Job, open: &OpenJob) {
        let Some(track) = self.hand_over(job.task, None, Some(open.id)) else {
            return;
        };
        let mut annotations = vec![
            Annotation::Number("job", job.number),
            Annotation::Number("work_ns", job.work),
        ];
        if let Some(deadline) = self.setting.deadline_of(job.task, job.release) {
            annotations.push(Annotation::Number("deadline_ns", deadline));
        }
        let begin = PacketEvent {
            name: EventName::Text(format!("#{}", job.number)),
            flow: Some(open.id),
            annotations,
        };
        self.out.begin(track, job.ready(), begin);
    }

    fn close_slice(&mut self, completion: &Completion, open: &OpenJob, missed: bool) {
        let Some(track) = self.hand_over(completion.task, Some(open.id), None) else {
            return;
        };
        let annotations = vec![
            Annotation::Truth("missed", missed),
            Annotation::Number("preemptions", open.preemptions),
        ];
        self.out.end(track, completion.end, annotations);
    }
}

impl<W: io::Write> Sink for ScheduleTrace<W> {
    fn completed(&mut self, completion: &Completion) {
        let deadline = self
            .setting
            .deadline_of(completion.task, completion.release);
        let missed = deadline.filter(|deadline| completion.end > *deadline);
        if let Some(at) = missed {
            self.write_instant(
                Track::Task(completion.task),
                at,
                MISSED,
                Some(completion.number),
            );
        }
        if let Some(open) = self.jobs.completed(completion) {
            self.close_slice(completion, &open, missed.is_some());
        }
    }

    fn released(&mut self, job: &Job) {
        self.write_instant(
            Track::Task(job.task),
            job.ready(),
            "release",
            Some(job.number),
        );
        let open = self.jobs.released(job);
        self.open_slice(job, &open);
    }

    fn ran(&mut self, piece: &Piece) {
        if piece.from >= piece.until {
            return;
        }
        let id = self.jobs.ran(piece).map_or(0, |open| open.id);
        let next = OpenSlice {
            job: Some((piece.task, piece.number, id)),
            from: piece.from,
            until: piece.until,
        };
        self.hold(piece.cpu, next);
        for place in 0..self.setting.used_by(piece).len() {
            let reservation = self.setting.used_by(piece)[place];
            self.tell(reservation, |balances, tell| {
                balances.ran(reservation, piece, tell);
            });
        }
    }

    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.jobs.overhead(cpu, from, until);
        if from < until {
            let next = OpenSlice {
                job: None,
                from,
                until,
            };
            self.hold(cpu, next);
        }
    }

    fn ran_out(&mut self, reservation: usize, at: u64) {
        self.write_instant(Track::Reservation(reservation), at, "ran out", None);
    }

    fn replenished(&mut self, reservation: usize, at: u64) {
        self.write_instant(Track::Reservation(reservation), at, "replenished", None);
        self.tell(reservation, |balances, tell| {
            balances.replenished(reservation, at, tell);
        });
    }
}
