//! Scenarios of `explain` as texts: what a kernel and a load generator have seen, and the course of each request.
//!
//! | line | meaning |
//! | --- | --- |
//! | `thread 10 redis rank 9 in 10 domain store` | a thread of process 10 that is there from the beginning |
//! | `domain store frozen 4ms/10ms` | a domain, frozen while its budget is used up; or `kernel TIMER`, `windows` or `none` |
//! | `socket 10:5 client 0` | descriptor 5 of process 10 is the other end of a client's connection |
//! | `generator 40` | the thread of the load generator |
//! | `100us cpu0 redis S > hog` | a CPU goes from one thread to another; the letter is the state of the first |
//! | `100us cpu0 wake redis` | the CPU's thread wakes another |
//! | `100us cpu0 enter read 5`, `exit read 64` | a system call on a descriptor, and its result |
//! | `100us cpu0 irq 36`, `end irq 36` | also `softirq 3` and `timer` |
//! | `100us cpu0 freeze /store`, `thaw /store` | the freezer of a cgroup |
//! | `child 12 worker rank 9` | a thread that is not there at the beginning; `100us cpu0 fork worker` makes it |
//! | `100us cpu0 fault` | a page fault |
//! | `100us cpu0 expire dl_task_timer` | a timer of the kernel that gives budgets back; a number behind it tells it from others |
//! | `100us cpu0 lost 7` | events that the kernel lost |
//! | `late cpu0 100us 5ms` | a sampler's look that was due, and when it came |
//! | `request 0 100us 100us 105us 2ms` | a client's request: intended, taken up, sent (or `-`), replied |

#![allow(clippy::expect_used)]

use std::collections::BTreeMap;

use tailbound_time::{Duration, Instant};
use tailbound_trace::explain::{ExplainOptions, Explanation, explain};
use tailbound_trace::kernel::{
    InterruptContext, KernelEventKind, OffCpuState, ThreadName, ThreadSwitch, Vector,
};
use tailbound_trace::recording::{
    KernelRecording, RecordedConnection, RecordedDomain, RecordedInterface, RecordedLoad,
    RecordedProcess, RecordedSocket, RecordedThread, RequestRow, SamplerDelay, SocketSnapshot,
};
use tailbound_trace::synthetic::SyntheticRecording;

const CALLS: [&str; 6] = ["read", "write", "epoll_wait", "futex", "nanosleep", "fsync"];
const TIMERS: [&str; 3] = [
    "sched_cfs_period_timer",
    "dl_task_timer",
    "sched_rt_period_timer",
];

/// A scenario as it is read.
pub struct Scenario {
    recording: SyntheticRecording,
    threads: BTreeMap<String, (u32, i32)>,
    current: BTreeMap<u32, u32>,
    sockets: SocketSnapshot,
    load: RecordedLoad,
    requests: Vec<RequestRow>,
    jobs_of: Vec<String>,
}

/// The explanations of a scenario as text.
pub fn explained(text: &str) -> String {
    let mut scenario = Scenario::new();
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(
            scenario.read(&words).is_some(),
            "not a line of a scenario: {line}"
        );
    }
    let explanations = scenario.explain();
    explanations.iter().map(in_words).collect()
}

fn in_words(explanation: &Explanation) -> String {
    let mut text = format!(
        "{}: {} requests\n",
        explanation.subject, explanation.requests
    );
    let mut slowest = explanation.slowest.clone();
    slowest.sort_by_key(|slow| slow.number);
    for slow in slowest {
        text.push_str(&format!("request {}, {}\n", slow.number, slow.latency));
        let sum = slow
            .course
            .iter()
            .fold(Duration::ZERO, |sum, one| sum.saturating_add(one.length));
        assert_eq!(sum, slow.latency, "the course adds up");
        for stretch in slow.course {
            let detail = match stretch.detail.as_str() {
                "" => String::new(),
                detail => format!(" ({detail})"),
            };
            text.push_str(&format!(
                "  {} {}{detail}\n",
                stretch.length,
                stretch.cause.words()
            ));
        }
    }
    for remark in &explanation.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    text
}

impl Scenario {
    fn new() -> Self {
        let mut recording = SyntheticRecording::new(2);
        let numbered = |names: &[&str]| {
            names
                .iter()
                .map(|name| name.to_string())
                .collect::<Vec<_>>()
        };
        recording.header.calls = (0..).zip(numbered(&CALLS)).collect();
        recording.header.timer_functions = (1000..).zip(numbered(&TIMERS)).collect();
        recording.header.interrupt_lines = [(36, "virtio1-req.0".to_string())].into();
        recording.header.looks_apart = Some(Duration::from_millis(2));
        let load = RecordedLoad {
            service: "store".into(),
            domain: "store".into(),
            tasks: vec!["get".into()],
            ..RecordedLoad::default()
        };
        Self {
            recording,
            threads: [("idle".to_string(), (0, 120))].into(),
            current: BTreeMap::new(),
            sockets: SocketSnapshot::default(),
            load,
            requests: Vec::new(),
            jobs_of: Vec::new(),
        }
    }

    fn read(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["thread", tid, name, "rank", rank, "in", process, rest @ ..] => self.thread(
                tid.parse().ok()?,
                name,
                rank.parse().ok()?,
                process.parse().ok()?,
                rest,
            ),
            ["child", tid, name, "rank", rank] => {
                let thread = (tid.parse().ok()?, rank.parse().ok()?);
                self.threads.insert(name.to_string(), thread);
                Some(())
            }
            ["domain", name, rest @ ..] => self.domain(name, rest),
            ["socket", place, "client", client] => self.socket(place, client.parse().ok()?),
            ["generator", tid] => {
                self.load.generator = Some(tid.parse().ok()?);
                Some(())
            }
            ["jobs", "of", name] => {
                self.jobs_of.push(name.to_string());
                Some(())
            }
            ["late", cpu, due, woke] => {
                self.recording.delays.push(SamplerDelay {
                    cpu: cpu_of(cpu)?,
                    due: instant(due)?,
                    woke: instant(woke)?,
                });
                Some(())
            }
            ["request", client, intended, taken_up, sent, replied] => {
                self.requests.push(RequestRow {
                    task: 0,
                    client: client.parse().ok()?,
                    intended: instant(intended)?,
                    taken_up: instant(taken_up)?,
                    sent: instant(sent),
                    replied: instant(replied)?,
                    answered: true,
                    warm_up: false,
                });
                Some(())
            }
            [at, cpu, what @ ..] => self.event(instant(at)?.as_nanos(), cpu_of(cpu)?, what),
            _ => None,
        }
    }

    fn thread(
        &mut self,
        tid: u32,
        name: &str,
        rank: i32,
        process: u32,
        rest: &[&str],
    ) -> Option<()> {
        self.threads.insert(name.to_string(), (tid, rank));
        let processes = &mut self.recording.header.processes;
        let place = processes.iter().position(|one| one.pid == process);
        let place = place.unwrap_or_else(|| {
            processes.push(RecordedProcess {
                pid: process,
                ..RecordedProcess::default()
            });
            processes.len() - 1
        });
        processes[place].threads.push(RecordedThread {
            tid,
            name: name.to_string(),
            cgroup: None,
        });
        match rest {
            [] => Some(()),
            ["domain", domain] => {
                processes[place].cgroup = format!("/{domain}");
                let mut domains = self.recording.header.domains.iter_mut();
                let domain = domains.find(|one| one.name == *domain)?;
                domain.pids.push(process);
                Some(())
            }
            _ => None,
        }
    }

    fn domain(&mut self, name: &str, rest: &[&str]) -> Option<()> {
        let mut domain = RecordedDomain {
            name: name.to_string(),
            ..RecordedDomain::default()
        };
        let interface = |text: &str| {
            let (budget, period) = text.split_once('/')?;
            Some(RecordedInterface {
                budget: budget.parse().ok()?,
                period: period.parse().ok()?,
            })
        };
        match rest {
            ["frozen", text] => (domain.frozen, domain.interface) = (true, Some(interface(text)?)),
            ["windows", text] => {
                (domain.frozen, domain.has_windows) = (true, true);
                domain.interface = Some(interface(text)?);
            }
            ["kernel", timer, text] => {
                domain.replenished_by = Some(timer.to_string());
                domain.interface = Some(interface(text)?);
            }
            ["none"] => {}
            _ => return None,
        }
        self.recording.header.domains.push(domain);
        Some(())
    }

    fn socket(&mut self, place: &str, client: u32) -> Option<()> {
        let (pid, descriptor) = place.split_once(':')?;
        let end = format!("unix:{client}");
        self.load.connections.push(RecordedConnection {
            task: 0,
            client,
            end: end.clone(),
        });
        self.sockets.sockets.push(RecordedSocket {
            pid: pid.parse().ok()?,
            descriptor: descriptor.parse().ok()?,
            peer: end,
        });
        Some(())
    }

    fn event(&mut self, at: u64, cpu: u32, what: &[&str]) -> Option<()> {
        let thread = self.current.get(&cpu).copied().unwrap_or(0);
        let kind = self.kind(what)?;
        if let KernelEventKind::ThreadSwitch(switch) = &kind {
            self.current.insert(cpu, switch.next);
        }
        self.recording.push(at, cpu, thread, kind);
        Some(())
    }

    fn kind(&self, what: &[&str]) -> Option<KernelEventKind> {
        let thread = |name: &str| self.threads.get(name).copied();
        let call = |name: &str| {
            let place = CALLS.iter().position(|call| *call == name)?;
            Some(place as u64)
        };
        Some(match what {
            [previous, state, ">", next] => {
                let (from, previous_rank) = thread(previous)?;
                let (to, next_rank) = thread(next)?;
                KernelEventKind::ThreadSwitch(ThreadSwitch {
                    previous: from,
                    previous_name: ThreadName::from(*previous),
                    state: state_of(state)?,
                    next: to,
                    next_name: ThreadName::from(*next),
                    previous_rank,
                    next_rank,
                })
            }
            ["wake", name] => KernelEventKind::Waking {
                thread: thread(name)?.0,
                name: ThreadName::from(*name),
                target_cpu: 0,
            },
            ["enter", name, first] => KernelEventKind::CallEntry {
                number: call(name)?,
                first: first.parse().ok()?,
                third: 0,
            },
            ["exit", name, result] => KernelEventKind::CallExit {
                number: call(name)?,
                result: result.parse().ok()?,
            },
            ["end", rest @ ..] => KernelEventKind::InterruptExit(interrupt(rest)?),
            ["freeze" | "thaw", path] => KernelEventKind::Freezer {
                cgroup: 1,
                path: path.to_string(),
                frozen: what[0] == "freeze",
            },
            ["fork", name] => KernelEventKind::NewThread {
                thread: thread(name)?.0,
                name: ThreadName::from(*name),
                same_process: false,
            },
            ["fault"] => KernelEventKind::PageFault {
                address: 0,
                by_user: true,
            },
            ["expire", function, of @ ..] => {
                let place = TIMERS.iter().position(|name| name == function)?;
                KernelEventKind::TimerExpiry {
                    function: 1000 + place as u64,
                    timer: match of {
                        [] => 1,
                        [number] => number.parse().ok()?,
                        _ => return None,
                    },
                }
            }
            ["lost", count] => KernelEventKind::Lost {
                count: count.parse().ok(),
            },
            _ => KernelEventKind::InterruptEntry(interrupt(what)?),
        })
    }

    fn explain(mut self) -> Vec<Explanation> {
        self.load.requests = self.requests.len() as u64;
        self.recording.sockets = vec![self.sockets];
        if !self.requests.is_empty() {
            self.recording.loads = vec![(self.load, self.requests)];
        }
        let bytes = self.recording.to_bytes();
        let recording = KernelRecording::open(bytes.as_slice()).expect("a recording");
        let options = ExplainOptions {
            threads: self.jobs_of.into_iter().collect(),
            ..ExplainOptions::default()
        };
        explain(&recording, &options).expect("explanations")
    }
}

fn instant(text: &str) -> Option<Instant> {
    let since: Duration = text.parse().ok()?;
    Some(Instant::ORIGIN + since)
}

fn cpu_of(text: &str) -> Option<u32> {
    text.strip_prefix("cpu")?.parse().ok()
}

fn state_of(letter: &str) -> Option<OffCpuState> {
    Some(match letter {
        "R" => OffCpuState::Runnable,
        "S" => OffCpuState::Sleeping,
        "D" => OffCpuState::Uninterruptible,
        "T" => OffCpuState::Stopped,
        "X" => OffCpuState::Ended,
        _ => return None,
    })
}

fn interrupt(words: &[&str]) -> Option<InterruptContext> {
    Some(match words {
        ["irq", line] => InterruptContext::Line(line.parse().ok()?),
        ["softirq", number] => InterruptContext::Soft(number.parse().ok()?),
        ["timer"] => InterruptContext::Vector(Vector::LocalTimer),
        _ => return None,
    })
}
