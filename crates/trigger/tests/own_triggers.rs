//! Triggers of this program.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tailbound_linux::trigger_control::TriggerControl;
use tailbound_trigger::layout::RecordingLayout;
use tailbound_trigger::site::TriggerSite;
use tailbound_trigger::{
    PATCH_VARIABLE, RecordingReader, TriggerError, TriggerEvent, call, disable, enable, listen,
    record_into, stop, trigger, triggers,
};

/// The triggers belong to the process, and the tests are threads of one.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn recorded(act: impl FnOnce()) -> (Vec<TriggerEvent>, RecordingReader) {
    recorded_in(RecordingLayout::default(), act)
}

fn recorded_in(
    layout: RecordingLayout,
    act: impl FnOnce(),
) -> (Vec<TriggerEvent>, RecordingReader) {
    let file = layout.anonymous_file().unwrap();
    record_into(&file).unwrap();
    act();
    stop();
    let mut reader = RecordingReader::open(&file).unwrap();
    let mut events = Vec::new();
    reader.drain(|event| events.push(*event));
    (events, reader)
}

#[inline(never)]
fn plain(number: u64) {
    trigger!("test.plain", number, number + 1);
}

#[inline(never)]
fn generic<T: Copy + Into<u64>>(values: &[T]) {
    for value in values {
        trigger!("test.generic", (*value).into());
    }
}

#[test]
fn events_are_recorded_while_a_trigger_is_on() {
    let _turn = alone();
    let (events, reader) = recorded(|| {
        plain(1);
        assert_eq!(enable("test.plain").unwrap(), 1);
        plain(2);
        disable("test.plain").unwrap();
        plain(3);
    });
    let arguments: Vec<_> = events.iter().map(|event| event.arguments()).collect();
    assert_eq!(arguments, [[2, 3]]);
    assert_eq!(reader.name(events[0].site).as_deref(), Some("test.plain"));
    assert_eq!(reader.lost(), 0);
}

#[test]
fn every_copy_of_a_generic_function_is_switched() {
    let _turn = alone();
    enable("test.g*").unwrap();
    let (events, _) = recorded(|| {
        generic(&[1_u8, 2]);
        generic(&[3_u32]);
        generic(&[4_u64]);
    });
    disable("test.g*").unwrap();
    let arguments: Vec<_> = events.iter().map(|event| event.arguments()[0]).collect();
    assert_eq!(arguments, [1, 2, 3, 4]);
    let states = triggers();
    let state = states.iter().find(|it| it.name == "test.generic").unwrap();
    assert!(state.copies >= 3 && !state.is_enabled, "{state:?}");
}

#[test]
fn a_pattern_without_a_trigger_is_refused() {
    let _turn = alone();
    let error = enable("test.no*").unwrap_err();
    assert!(matches!(&error, TriggerError::NoTrigger(_)));
    assert_eq!(
        error.to_string(),
        "no trigger of the program fits \"test.no*\""
    );
}

#[test]
fn a_trigger_without_and_one_with_eight_arguments_call_a_function() {
    static SUM: AtomicU64 = AtomicU64::new(0);
    extern "C" fn add(site: &TriggerSite, arguments: *const u64, count: u32) {
        assert!(site.name().starts_with("call."));
        // SAFETY: the trigger passes so many arguments.
        #[allow(unsafe_code)]
        let arguments = unsafe { std::slice::from_raw_parts(arguments, count as usize) };
        SUM.fetch_add(1_000 + arguments.iter().sum::<u64>(), Ordering::Relaxed);
    }
    let _turn = alone();
    assert_eq!(call("call.*", add).unwrap(), 2);
    trigger!("call.none");
    trigger!("call.eight", 1, 2_u8, 3_i64, 4, 5, 6, 7, 'a');
    disable("call.*").unwrap();
    trigger!("call.none");
    assert_eq!(SUM.load(Ordering::Relaxed), 2_000 + 28 + 97);
}

/// Threads run a trigger while it is switched often; each event of it is whole.
#[test]
fn a_trigger_is_switched_while_threads_run_it() {
    let _turn = alone();
    let is_over = AtomicBool::new(false);
    let (events, reader) = recorded(|| {
        thread::scope(|scope| {
            for thread in 0..2_u64 {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut number = thread << 32;
                    while !is_over.load(Ordering::Relaxed) {
                        plain(number);
                        number += 1;
                    }
                });
            }
            for _ in 0..200 {
                enable("test.plain").unwrap();
                disable("test.plain").unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
    let mut latest = std::collections::HashMap::new();
    for event in &events {
        let [number, next] = event.arguments().try_into().unwrap();
        assert_eq!(number + 1, next);
        let before = latest.insert(event.thread, number);
        assert!(before < Some(number), "{before:?} before {number}");
    }
    assert_eq!(reader.salvage(|_| ()).unfinished, 0);
}

#[test]
fn threads_that_end_leave_their_rings_to_others() {
    let _turn = alone();
    enable("test.plain").unwrap();
    let layout = RecordingLayout {
        rings: 2,
        slots: 64,
        ..RecordingLayout::default()
    };
    let (events, reader) = recorded_in(layout, || {
        for number in 0..60 {
            let twice = move || {
                plain(number);
                plain(number);
            };
            thread::spawn(twice).join().unwrap();
        }
    });
    disable("test.plain").unwrap();
    // A ring that the first thread had kept would have left the ring for all to the others.
    assert_eq!((events.len(), reader.lost()), (64, 56));
}

/// Runs one test of this program in a process of its own, which `set_up` prepares.
fn run_alone(test: &str, set_up: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    set_up(&mut command);
    command.output().unwrap()
}

fn assert_passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let faults = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{faults}");
    assert!(text.contains("1 passed"), "{text}{faults}");
}

#[test]
fn text_stays_as_it_is_where_the_environment_says_so() {
    let test = "own_triggers::switches_by_the_rule_of_the_environment";
    for value in ["off", "never", "on"] {
        assert_passed(&run_alone(test, |child| {
            child.env(PATCH_VARIABLE, value);
        }));
    }
}

#[test]
#[ignore = "runs in a process of its own"]
fn switches_by_the_rule_of_the_environment() {
    let value = std::env::var(PATCH_VARIABLE).unwrap();
    let switched = enable("test.plain").map_err(|error| error.to_string());
    let (events, _) = recorded(|| plain(1));
    let is_jump = cfg!(all(target_arch = "x86_64", not(feature = "atomic")));
    let reason = match (is_jump, value.as_str()) {
        (true, "off") => "TAILBOUND_TRIGGER_PATCH=off forbids it",
        (true, "never") => "TAILBOUND_TRIGGER_PATCH=never is neither on nor off",
        _ => {
            assert_eq!((switched, events.len()), (Ok(1), 1));
            return;
        }
    };
    let refusal = format!(
        "trigger \"test.plain\" cannot be switched, since the text of the program cannot be changed ({reason}); build \
         the program with the feature `atomic`, in C with TAILBOUND_TRIGGER_ATOMIC"
    );
    assert_eq!((switched, events.len()), (Err(refusal), 0));
}

/// The process whose triggers [`asks_as_another_user`] asks for.
const SERVER_VARIABLE: &str = "TAILBOUND_TEST_SERVER";
/// The number of the user `nobody`.
const NOBODY: u32 = 65_534;

/// Has a process of the user `nobody` ask for the triggers of a process; without root there is a line instead.
pub fn check_that_others_are_refused(pid: u32) {
    let test = "own_triggers::asks_as_another_user";
    assert!(TriggerControl::connect(pid).unwrap().triggers().is_ok());
    let become_nobody = |child: &mut Command| {
        child.env(SERVER_VARIABLE, pid.to_string());
        child.uid(NOBODY).gid(NOBODY);
    };
    let mut probe = Command::new("true");
    if probe.uid(NOBODY).gid(NOBODY).status().is_err() {
        eprintln!("SKIP the socket of triggers and other users: needs root");
        return;
    }
    assert_passed(&run_alone(test, become_nobody));
}

#[test]
#[ignore = "runs in a process of its own"]
fn asks_as_another_user() {
    let pid = std::env::var(SERVER_VARIABLE).unwrap().parse().unwrap();
    let error = TriggerControl::connect(pid).and_then(|mut it| it.triggers());
    let expected = format!(
        "process {pid} refuses the connection; only its user and root may switch its triggers"
    );
    assert_eq!(error.unwrap_err().to_string(), expected);
}

#[test]
fn another_user_is_refused() {
    listen().unwrap();
    check_that_others_are_refused(std::process::id());
}
