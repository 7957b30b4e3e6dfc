//! What a simulation tells while it goes on.

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

/// Takes what happens in a simulation, in order of time.
///
/// The calls are made where the type is known, so that a sink which does nothing costs nothing.
pub trait Sink {
    /// A job is done.
    fn completed(&mut self, completion: &Completion);

    /// A task ran from one instant to another, in nanoseconds; neighbouring pieces may be of one job.
    fn ran(&mut self, task: usize, from: u64, until: u64) {
        let _ = (task, from, until);
    }

    /// Work inside of a reservation waits because its budget is used up. Reservations count in the
    /// order of the tree, from 1; the host is 0.
    fn ran_out(&mut self, reservation: usize, at: u64) {
        let _ = (reservation, at);
    }
}

/// All completions, in order.
impl Sink for Vec<Completion> {
    fn completed(&mut self, completion: &Completion) {
        self.push(*completion);
    }
}
