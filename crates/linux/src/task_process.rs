//! A process that is stopped and continued by signals, and is never confused with another one that
//! gets its number.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use tailbound_time::Duration;

use crate::control_socket::{ProcessHandle, open_handle, send_by_handle};
use crate::process::{self, gone};
use crate::thread::current_cpu;

/// What the threads of a process are about, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Stopped by a signal, or by a debugger.
    pub stopped: u32,
    /// On a CPU, or waiting for one, as far as can be told.
    pub running: u32,
    /// Waiting for the CPU that the caller is on; on none since then.
    pub ready: u32,
    /// In a wait that no signal ends.
    pub uninterruptible: u32,
    /// In a wait that a signal ends; with a stop signal pending this is a frozen thread, since any
    /// other would have been woken by it.
    pub sleeping: u32,
}

impl Activity {
    /// How many threads there are; none where the process has ended.
    pub fn threads(self) -> u32 {
        self.stopped + self.running + self.ready + self.uninterruptible + self.sleeping
    }

    fn of(thread: ProcessStat) -> Self {
        let mut activity = Self::default();
        activity.count(thread);
        activity
    }

    /// Counts a thread as /proc has just shown it; one that has exited does not count.
    fn count(&mut self, thread: ProcessStat) {
        match thread.state {
            b'T' | b't' => self.stopped += 1,
            // The caller has the CPU that the thread was last on. If it is on another one by now,
            // it came there through the scheduler, and takes its signals in before it goes on.
            b'R' if thread.cpu.is_some() && thread.cpu == current_cpu() => self.ready += 1,
            b'R' => self.running += 1,
            b'D' => self.uninterruptible += 1,
            b'Z' | b'X' | b'x' => {}
            _ => self.sleeping += 1,
        }
    }
}

/// What /proc/PID/stat shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessStat {
    /// The state, as a letter (proc(5)).
    state: u8,
    /// How many threads the process has.
    threads: u32,
    /// The CPU that it was last on.
    cpu: Option<u32>,
}

impl ProcessStat {
    /// From the text of the file.
    fn read(stat: &[u8]) -> io::Result<Self> {
        Self::parse(stat).ok_or_else(|| {
            let message = "/proc/PID/stat is not as expected";
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        // The second field, the name, may hold anything.
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let text = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        // Fields 20 and 39; the state is field 3.
        let threads = fields.nth(16)?.parse().ok()?;
        let cpu = fields.nth(18).and_then(|text| text.parse().ok());
        Some(Self {
            state,
            threads,
            cpu,
        })
    }
}

/// Who of a process knows that it is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalReach {
    /// Every thread has the signal, and returns to the program no more.
    EveryThread,
    /// One thread has it, and tells the others when it takes it in. Until then they go on: this
    /// kernel (before Linux 6.9) has no handles of threads.
    OneThread,
}

/// What became of telling a process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopOutcome {
    /// Who of it knows.
    pub reach: SignalReach,
    /// What its only thread was about right after; `None` if there are several, or it has ended.
    pub seen: Option<Activity>,
}

/// A process by its handle, which stays that of this process (pidfd_open(2)).
#[derive(Debug)]
pub struct TaskProcess {
    pid: u32,
    handle: ProcessHandle,
    /// /proc/PID/stat, open: it stays that of this process, too.
    stat: File,
}

impl TaskProcess {
    /// The process with the number `pid`; with `started`, only if it is the one that started then
    /// (in clock ticks since boot, as [`process::process_started`] tells).
    ///
    /// # Errors
    /// `NotFound` if there is none, `InvalidInput` if `pid` is a thread of another process or no
    /// number of a process; else what the kernel says.
    pub fn open(pid: u32, started: Option<u64>) -> io::Result<Self> {
        let handle = ProcessHandle::open(pid).map_err(gone)?;
        let stat = File::open(format!("/proc/{pid}/stat")).map_err(gone)?;
        let began = process::process_started(pid)?;
        let opened = Self { pid, handle, stat };
        // It lived from before its files were opened until now, so they are its own.
        if opened.has_ended()? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has ended"));
        }
        match started {
            Some(expected) if expected != began => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "the process with that number started at tick {began}, not {expected}: it is \
                     another one"
                ),
            )),
            _ => Ok(opened),
        }
    }

    /// Its number, which is another one's if this process has ended.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has ended, reaped or not.
    ///
    /// # Errors
    /// If the kernel refuses the poll.
    pub fn has_ended(&self) -> io::Result<bool> {
        self.handle.wait_ended(Duration::ZERO)
    }

    /// Sends SIGSTOP, to the process and then to each of its threads: the kernel gives the signal of
    /// a process to one thread, and the others would go on until that one gets a CPU.
    ///
    /// # Errors
    /// `NotFound` if it has ended and was reaped; `PermissionDenied` if it is not ours.
    pub fn stop(&self) -> io::Result<StopOutcome> {
        send_by_handle(self.handle.as_fd(), libc::SIGSTOP).map_err(gone)?;
        // With a signal pending it makes no thread any more.
        let reach = SignalReach::EveryThread;
        Ok(match self.shown()? {
            Some(shown) if shown.threads > 1 => StopOutcome {
                reach: self.tell_threads()?,
                seen: None,
            },
            Some(shown) => StopOutcome {
                reach,
                seen: Some(Activity::of(shown)),
            },
            None => StopOutcome { reach, seen: None },
        })
    }

    /// Sends SIGCONT, which also takes back every SIGSTOP that was not taken in yet.
    ///
    /// # Errors
    /// `NotFound` if it has ended and was reaped; `PermissionDenied` if it is not ours.
    pub fn resume(&self) -> io::Result<()> {
        send_by_handle(self.handle.as_fd(), libc::SIGCONT).map_err(gone)
    }

    fn tell_threads(&self) -> io::Result<SignalReach> {
        let mut signalled = Vec::new();
        loop {
            let before = signalled.len();
            for tid in process::threads_of(self.pid).or_else(none_if_gone)? {
                if signalled.contains(&tid) {
                    continue;
                }
                match self.tell_thread(tid) {
                    Ok(()) => signalled.push(tid),
                    // It has exited.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) if is_unknown_to_kernel(&error) => {
                        return Ok(SignalReach::OneThread);
                    }
                    Err(error) => return Err(error),
                }
            }
            // A thread that was not told yet may have made another one meanwhile.
            if signalled.len() == before {
                return Ok(SignalReach::EveryThread);
            }
        }
    }

    fn tell_thread(&self, tid: u32) -> io::Result<()> {
        // Signals to such a handle go to that thread alone (PIDFD_THREAD).
        let thread = open_handle(tid, libc::O_EXCL).map_err(gone)?;
        // Listed before, and still there: the handle is that of this process's thread.
        fs::metadata(format!("/proc/{}/task/{tid}", self.pid)).map_err(gone)?;
        if self.has_ended()? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has ended"));
        }
        send_by_handle(thread.as_fd(), libc::SIGSTOP).map_err(gone)
    }

    /// What /proc shows of the process; `None` where it has ended and was reaped.
    fn shown(&self) -> io::Result<Option<ProcessStat>> {
        let mut text = [0; 1024];
        match self.stat.read_at(&mut text, 0).map_err(gone) {
            Ok(bytes) => ProcessStat::read(text.get(..bytes).unwrap_or_default()).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What its threads are about now; none is counted where it has ended.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn activity(&self) -> io::Result<Activity> {
        let mut activity = Activity::default();
        match self.shown()? {
            None => {}
            Some(shown) if shown.threads <= 1 => activity = Activity::of(shown),
            Some(_) => self.count_threads(&mut activity)?,
        }
        Ok(activity)
    }

    fn count_threads(&self, activity: &mut Activity) -> io::Result<()> {
        for tid in process::threads_of(self.pid).or_else(none_if_gone)? {
            let path = format!("/proc/{}/task/{tid}/stat", self.pid);
            match fs::read(path).map_err(gone) {
                Ok(text) => activity.count(ProcessStat::read(&text)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn none_if_gone(error: io::Error) -> io::Result<Vec<u32>> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(error),
    }
}

/// Whether the kernel does not know that a thread may have a handle.
fn is_unknown_to_kernel(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::process::{Child, Command};

    use proptest::prelude::*;

    use super::*;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        crate::process::die_with_parent(command.arg("60"))
            .spawn()
            .unwrap()
    }

    fn until(process: &TaskProcess, holds: impl Fn(Activity) -> bool) {
        while !holds(process.activity().unwrap()) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_is_stopped_continued_and_seen_to_end() {
        let mut child = sleeper();
        let process = TaskProcess::open(child.id(), None).unwrap();
        assert_eq!(process.pid(), child.id());
        process.stop().unwrap();
        until(&process, |now| now.stopped == 1 && now.threads() == 1);
        process.resume().unwrap();
        until(&process, |now| now.stopped == 0 && now.threads() == 1);
        assert!(!process.has_ended().unwrap());
        child.kill().unwrap();
        // A zombie counts as ended.
        until(&process, |now| now.threads() == 0);
        child.wait().unwrap();
        assert!(process.has_ended().unwrap());
        assert_eq!(process.activity().unwrap(), Activity::default());
        assert_eq!(process.stop().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn all_threads_are_counted() {
        let own = TaskProcess::open(std::process::id(), None).unwrap();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let waiter = std::thread::spawn(move || _ = receive.recv());
        assert!(own.activity().unwrap().threads() >= 2);
        drop(send);
        waiter.join().unwrap();
    }

    #[test]
    fn another_process_of_that_number_is_refused() {
        let mut child = sleeper();
        let began = process::process_started(child.id()).unwrap();
        assert!(TaskProcess::open(child.id(), Some(began)).is_ok());
        let other = TaskProcess::open(child.id(), Some(began + 1)).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::NotFound);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(TaskProcess::open(child.id(), None).is_err());
        assert!(TaskProcess::open(0, None).is_err());
        assert!(TaskProcess::open(u32::MAX, None).is_err());
    }

    #[test]
    fn names_of_processes_may_hold_anything() {
        let line = "7 (a) R 1) T 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 99";
        let shown = |line: &str| ProcessStat::parse(line.as_bytes()).unwrap();
        let expected = ProcessStat {
            state: b'T',
            threads: 3,
            cpu: None,
        };
        assert_eq!(shown(line), expected);
        let longer = format!("{line} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 5 0\n");
        let cpu = Some(5);
        assert_eq!(shown(&longer), ProcessStat { cpu, ..expected });
        let own = fs::read("/proc/thread-self/stat").unwrap();
        assert!(ProcessStat::parse(&own).unwrap().cpu.is_some());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _parsed = ProcessStat::parse(&text);
        }
    }
}
