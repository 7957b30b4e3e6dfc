#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::SyntheticRecording;
use crate::kernel::{
    ExecutionContext, InterruptContext, KernelEvent, KernelEventKind, LockCall, LockKind, LockStep,
    OffCpuState, ThreadName, ThreadSwitch, Vector,
};
use crate::recording::{KernelRecording, StreamLoss};

/// All events of a recording, and what it lost.
pub(crate) fn events_of(bytes: &[u8]) -> (Vec<KernelEvent>, StreamLoss) {
    let recording = KernelRecording::open(bytes).unwrap();
    let decoder = recording.decoder().unwrap();
    let mut merged = recording.events(&decoder);
    let mut events = Vec::new();
    while let Some(event) = merged.next_event().unwrap() {
        events.push(event);
    }
    (events, merged.loss())
}

/// Some kind of event.
pub(crate) fn arbitrary_kind() -> impl Strategy<Value = KernelEventKind> {
    let interrupt = || {
        prop_oneof![
            (0..50_u32).prop_map(InterruptContext::Line),
            (0..10_u32).prop_map(InterruptContext::Soft),
            Just(InterruptContext::Vector(Vector::LocalTimer)),
            Just(InterruptContext::Vector(Vector::CallFunction)),
        ]
    };
    let state = prop_oneof![
        Just(OffCpuState::Runnable),
        Just(OffCpuState::Sleeping),
        Just(OffCpuState::Uninterruptible),
        Just(OffCpuState::Stopped),
        Just(OffCpuState::Ended),
    ];
    let thread = || 0..9_u32;
    let name = || "[a-z]{0,15}".prop_map(|name| ThreadName::from(name.as_str()));
    let switch = (
        thread(),
        name(),
        state,
        thread(),
        name(),
        -1..140_i32,
        -1..140_i32,
    );
    prop_oneof![
        4 => switch.prop_map(|(previous, previous_name, state, next, next_name, previous_rank, next_rank)| {
            let switch = ThreadSwitch { previous, previous_name, state, next, next_name, previous_rank, next_rank };
            KernelEventKind::ThreadSwitch(switch)
        }),
        2 => (thread(), name(), 0..3_u32)
            .prop_map(|(thread, name, target_cpu)| KernelEventKind::Waking { thread, name, target_cpu }),
        1 => (thread(), name(), any::<bool>())
            .prop_map(|(thread, name, same_process)| KernelEventKind::NewThread { thread, name, same_process }),
        1 => (thread(), name()).prop_map(|(thread, name)| KernelEventKind::Rename { thread, name }),
        1 => thread().prop_map(|thread| KernelEventKind::Exit { thread }),
        2 => interrupt().prop_map(KernelEventKind::InterruptEntry),
        2 => interrupt().prop_map(KernelEventKind::InterruptExit),
        1 => (any::<u64>(), any::<u64>())
            .prop_map(|(function, timer)| KernelEventKind::TimerExpiry { function, timer }),
        2 => (0..300_u64, 0..5_u64, 0..5_u64)
            .prop_map(|(number, first, third)| KernelEventKind::CallEntry { number, first, third }),
        2 => (0..300_u64, any::<i64>()).prop_map(|(number, result)| KernelEventKind::CallExit { number, result }),
        1 => (any::<u64>(), any::<u32>()).prop_map(|(lock, flags)| KernelEventKind::ContentionBegin { lock, flags }),
        1 => any::<u64>().prop_map(|lock| KernelEventKind::ContentionEnd { lock }),
        2 => arbitrary_lock_call().prop_map(KernelEventKind::Lock),
        1 => (any::<u64>(), any::<bool>())
            .prop_map(|(address, by_user)| KernelEventKind::PageFault { address, by_user }),
        1 => (any::<u64>(), "/[a-z]{0,200}", any::<bool>())
            .prop_map(|(cgroup, path, frozen)| KernelEventKind::Freezer { cgroup, path, frozen }),
        1 => any::<bool>().prop_map(|begins| KernelEventKind::Idle { begins }),
    ]
}

/// A step of a lock, of a spin lock where it is an attempt.
fn arbitrary_lock_call() -> impl Strategy<Value = LockCall> {
    let step = prop_oneof![
        Just(LockStep::Request),
        Just(LockStep::Release),
        Just(LockStep::Attempt),
        any::<bool>().prop_map(|is_taken| LockStep::Outcome { is_taken }),
    ];
    let context = proptest::sample::select(vec![
        ExecutionContext::Thread,
        ExecutionContext::SoftInterrupt,
        ExecutionContext::HardInterrupt,
        ExecutionContext::Unmaskable,
    ]);
    let kind = proptest::sample::select(&LockKind::ALL[..]);
    (step, kind, any::<[u64; 2]>(), context).prop_map(|(step, kind, [lock, caller], context)| {
        let is_attempt = matches!(step, LockStep::Attempt | LockStep::Outcome { .. });
        let is_outcome = matches!(step, LockStep::Outcome { .. });
        LockCall {
            step,
            kind: if is_attempt { LockKind::Spin } else { kind },
            lock: if is_outcome { 0 } else { lock },
            caller: if is_outcome { 0 } else { caller },
            context,
        }
    })
}

/// A recording of some events whose times do not fall.
pub(crate) fn arbitrary_recording() -> impl Strategy<Value = SyntheticRecording> {
    let distance = prop_oneof![8 => 0..5000_u64, 1 => 0..(1_u64 << 40)];
    let event = (distance, 0..2_u32, 0..9_u32, arbitrary_kind());
    proptest::collection::vec(event, 0..150).prop_map(|rows| {
        let mut recording = SyntheticRecording::new(2);
        let mut at = 1_000_000;
        for (distance, cpu, thread, kind) in rows {
            at += distance;
            recording.push(at, cpu, thread, kind);
        }
        recording
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn events_are_read_as_they_were_pushed(recording in arbitrary_recording()) {
        let (mut events, loss) = events_of(&recording.to_bytes());
        let mut pushed = recording.events.clone();
        prop_assert_eq!(loss, StreamLoss::default());
        // Events at one instant may stand in another order: by CPU, then by buffer.
        let order = |event: &KernelEvent| (event.at, event.cpu, format!("{:?}", event.kind));
        events.sort_by_key(order);
        pushed.sort_by_key(order);
        prop_assert_eq!(events, pushed);
    }
}
