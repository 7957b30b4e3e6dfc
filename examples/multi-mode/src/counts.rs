//! What tasks say of their jobs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;

/// A line of the program `periodic`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line<'a> {
    Ready(&'a str),
    Told {
        task: &'a str,
        jobs: u64,
        missed: u64,
        longest_ns: u64,
    },
}

/// Reads a line; nothing if it is another program's, such as the guest's kernel.
fn read_line(line: &str) -> Option<Line<'_>> {
    let mut words = line.trim().strip_prefix("periodic ")?.split(' ');
    let task = words.next()?;
    let first = words.next()?;
    let second = words.next()?.parse().ok()?;
    if first == "ready" {
        return Some(Line::Ready(task));
    }
    let line = Line::Told {
        task,
        jobs: first.parse().ok()?,
        missed: second,
        longest_ns: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(line)
}

/// Jobs of a window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Jobs {
    /// Released, and done or given up.
    pub jobs: u64,
    /// Of them, not done within their deadline.
    pub missed: u64,
    /// The longest response time, of any task.
    pub longest_ns: u64,
}

impl Jobs {
    /// Those of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            jobs: self.jobs + other.jobs,
            missed: self.missed + other.missed,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

/// The output of one or more tasks in one file, which grows.
#[derive(Debug)]
pub struct Output {
    file: File,
    /// A line whose end is not there yet.
    unfinished: Vec<u8>,
    tasks: BTreeMap<String, Task>,
}

#[derive(Debug, Default)]
struct Task {
    /// Since its start.
    total: Jobs,
    /// Before the current window.
    before: Jobs,
}

impl Output {
    /// Of a file that is there.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            unfinished: Vec::new(),
            tasks: BTreeMap::new(),
        })
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self) -> io::Result<()> {
        let mut new = Vec::new();
        self.file.read_to_end(&mut new)?;
        self.take(&new);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.unfinished.extend_from_slice(bytes);
        while let Some(end) = self.unfinished.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unfinished.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).into_owned();
            match read_line(&line) {
                None => {}
                Some(Line::Ready(task)) => {
                    self.tasks.entry(task.to_owned()).or_default();
                }
                Some(Line::Told {
                    task,
                    jobs,
                    missed,
                    longest_ns,
                }) => {
                    let total = &mut self.tasks.entry(task.to_owned()).or_default().total;
                    total.jobs = jobs;
                    total.missed = missed;
                    total.longest_ns = total.longest_ns.max(longest_ns);
                }
            }
        }
    }

    /// How many tasks have timed their loop.
    pub fn ready(&self) -> usize {
        self.tasks.len()
    }

    /// The jobs that were told of since the last call, of all tasks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn window(&mut self) -> io::Result<Jobs> {
        self.read()?;
        let mut all = Jobs::default();
        for task in self.tasks.values_mut() {
            let new = Jobs {
                jobs: task.total.jobs.saturating_sub(task.before.jobs),
                missed: task.total.missed.saturating_sub(task.before.missed),
                longest_ns: task.total.longest_ns,
            };
            task.total.longest_ns = 0;
            task.before = task.total;
            all = all.and(new);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn windows_count_what_is_new() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut output = Output::of(file.path()).unwrap();
        let window = |output: &mut Output| output.window().unwrap();
        file.write_all(b"[ 0.1] kernel\r\nperiodic a ready 400\r\nperiodic b ready 401\r\n")
            .unwrap();
        assert_eq!(window(&mut output), Jobs::default());
        assert_eq!(output.ready(), 2);
        file.write_all(b"periodic a 5 1 300\r\nperiodic a 9 1 200\r\nperiodic b 2 0 7\nperio")
            .unwrap();
        let jobs = |jobs, missed, longest_ns| Jobs {
            jobs,
            missed,
            longest_ns,
        };
        assert_eq!(window(&mut output), jobs(11, 1, 300));
        file.write_all(b"dic b 4 1 80\n").unwrap();
        assert_eq!(window(&mut output), jobs(2, 1, 80));
        assert_eq!(window(&mut output), jobs(0, 0, 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(parts: Vec<Vec<u8>>, cut in 0_usize..40) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut output = Output::of(file.path()).unwrap();
            for part in parts {
                output.take(&part);
                output.take(b"\nperiodic x 3 1 5\n".get(cut..).unwrap_or_default());
            }
            let _jobs = output.window().unwrap();
        }
    }
}
