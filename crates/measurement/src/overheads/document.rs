//! Measured overheads in machine output: integers of nanoseconds, and the values that follow from the
//! measured ones.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::{MeasuredCost, MeasuredOverheads, Subject, WORKING_SET_BYTES};

impl Subject {
    /// The name of the cost, and its meaning.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Look => ("look", "a yield that finds no other thread"),
            Self::Switch => ("switch", "one yield between two threads, less the look"),
            Self::SwitchWithWorkingSet => (
                "switch, 64 KiB each",
                "the same where each thread uses its working set",
            ),
            Self::Handover => ("handover", "a wake-up, a sleep and the switch, by a pipe"),
            Self::Interrupt => ("interrupt", "a timer that nobody waits for"),
            Self::InterruptWithWakeUp => (
                "interrupt and wake-up",
                "a timer that wakes a thread of lower priority",
            ),
            Self::Preemption => (
                "whole preemption",
                "a timer that wakes a thread of higher priority, until that sleeps",
            ),
            Self::Arming => (
                "arming",
                "to arm a timer: not an overhead, part of a periodic job",
            ),
            Self::Migration => (
                "migration",
                "CPU time of a move by affinity, with 64 KiB used after it",
            ),
            Self::Refetch => ("refetch", "of a migration, the use of the 64 KiB"),
            Self::MigrationPassed => (
                "migration, until done",
                "the same with the waiting for the other CPU",
            ),
        }
    }
}

impl Serialize for MeasuredCost {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let (name, meaning) = self.subject.words();
        let mut fields = out.serialize_struct("MeasuredCost", 7)?;
        fields.serialize_field("name", name)?;
        fields.serialize_field("meaning", meaning)?;
        fields.serialize_field("value_ns", &self.cost.value.as_nanos())?;
        fields.serialize_field("noise_floor_ns", &self.cost.floor.as_nanos())?;
        fields.serialize_field("above_noise", &self.cost.is_above_floor())?;
        fields.serialize_field("with", &self.cost.with)?;
        fields.serialize_field("without", &self.cost.without)?;
        fields.end()
    }
}

impl Serialize for MeasuredOverheads {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let parts_ns = self.preemption_of_parts().as_nanos();
        let mut fields = out.serialize_struct("MeasuredOverheads", 11)?;
        fields.serialize_field("cpu", &self.plan.cpu)?;
        fields.serialize_field("other_cpu", &self.plan.other_cpu)?;
        fields.serialize_field("fifo", &self.fifo)?;
        fields.serialize_field("clock_reading_ns", &self.reading.as_nanos())?;
        fields.serialize_field("working_set_bytes", &WORKING_SET_BYTES)?;
        fields.serialize_field("costs", &self.costs)?;
        fields.serialize_field("tick", &self.tick)?;
        fields.serialize_field("preemption_of_parts_ns", &parts_ns)?;
        fields.serialize_field("not_measured", &self.missing)?;
        fields.serialize_field("description", &self.overheads())?;
        fields.serialize_field("not_above_noise", &self.not_above_noise())?;
        fields.end()
    }
}
