//! What a simulation tells while it goes on.

use super::source::Job;

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its task: the position among the tasks of the plan, in order of the tree.
    pub task: usize,
    /// The number that its source gave it.
    pub number: u64,
    /// When it was released, in nanoseconds.
    pub release: u64,
    /// When it was done, in nanoseconds.
    pub end: u64,
}

/// A stretch of time in which a job ran on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its task: the position among the tasks of the plan, in order of the tree.
    pub task: usize,
    /// The number that its source gave it.
    pub number: u64,
    /// The CPU, by its position in the plan.
    pub cpu: usize,
    /// From when, in nanoseconds.
    pub from: u64,
    /// Until when, in nanoseconds.
    pub until: u64,
    /// The innermost reservation that it ran in; 0 is the host.
    pub reservation: usize,
    /// Whether that one was boosted, so that the time comes from no budget.
    pub boosted: bool,
}

/// Takes what happens in a simulation, in order of time.
///
/// The calls are made where the type is known, so that a sink which does nothing costs nothing.
/// Reservations count in the order of the tree, from 1; the host is 0.
pub trait Sink {
    /// Whether a piece may be told only when its job leaves the CPU, although other things have
    /// happened since the piece began. Simulations that know a shorter way then take it.
    const WHOLE_PIECES: bool = false;

    /// A job is done.
    fn completed(&mut self, completion: &Completion);

    /// A job is released.
    fn released(&mut self, job: &Job) {
        let _ = job;
    }

    /// A job ran; neighbouring pieces may be of one job.
    fn ran(&mut self, piece: &Piece) {
        let _ = piece;
    }

    /// A CPU worked for the operating system, from one instant to another, in nanoseconds.
    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        let _ = (cpu, from, until);
    }

    /// Work inside of a reservation waits because its budget is used up.
    fn ran_out(&mut self, reservation: usize, at: u64) {
        let _ = (reservation, at);
    }

    /// A reservation that was used, or had run out, has got budget back.
    fn replenished(&mut self, reservation: usize, at: u64) {
        let _ = (reservation, at);
    }
}

/// All completions, in order.
impl Sink for Vec<Completion> {
    const WHOLE_PIECES: bool = true;

    fn completed(&mut self, completion: &Completion) {
        self.push(*completion);
    }
}
