//! Transitions as scripts that can be read: `tests/scenarios/NAME.txt`.
//!
//! A script has paragraphs: commands, a line `----`, and all that comes of them. `UPDATE=1` writes what
//! comes of them anew, to be read in the diff. Lines that begin with `#` say what a script is about.
//!
//! | Command | Meaning |
//! | --- | --- |
//! | `policy prompt` | the order of changes, in the words of descriptions |
//! | `start in-force` | when tasks of growing domains start |
//! | `timeout 100ms` | how long an agent may take to answer |
//! | `regardless` | one domain that cannot change ends nothing for the others |
//! | `cpu 1 80%` | the limit of a CPU |
//! | `domain arm old 4ms/10ms {a b} -> new 1ms/10ms {c}` | a domain's old and new mode; then, as needed, `fallback park 1ms/10ms {}`, `offset 30ms`, `fallback-offset 30ms`, `on 1` (a CPU), `moves-to 1`, `outside` or `no-agent`, `in-doubt` (its tasks are not known) |
//! | `agent arm answers 9ms` | how an agent behaves in `run`: `answers`, `fails` or `ends` after a while, or `hangs`; else it answers after 50us |
//! | `refuse arm 2` | the first two interfaces of a domain are refused in `run`; without a number, all |
//! | `run 1ms` | a transition that begins then runs to its end |
//! | `back` | what came of it is taken back, as the manager does |
//! | `next` | new domains follow, for a transition after this one |
//! | `begin 1ms`, `wake 2ms`, `give-up 2ms` | a transition step by step |
//! | `answer arm 2ms`, `fail arm 2ms`, `lose arm 2ms` | its agent has switched, could not, or is gone |
//! | `accept arm 2ms 10ms`, `decline arm 2ms` | its interface was accepted, in force at 10ms, or was refused |

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tailbound_model::{
    AgentPlace, BudgetScope, ChangePolicy, Cpu, Priority, ResourceInterface, TaskStart,
};
use tailbound_modes::transition::{
    DomainChange, DomainMode, HeldMode, Limits, Options, Transition, TransitionEvent,
    TransitionOutcome,
};
use tailbound_time::{Duration, Fraction, Instant};

use super::words;
use super::world::{Agent, World};

/// A script as far as it has run.
struct Script {
    options: Options,
    /// The limit of each CPU, in percent.
    percent: BTreeMap<Cpu, u64>,
    regardless: bool,
    changes: Vec<DomainChange>,
    agents: Vec<(String, Agent)>,
    refusals: Vec<(String, Option<usize>)>,
    world: Option<World>,
    transition: Option<Transition>,
    /// Whether the transition's end has been written down.
    has_ended: bool,
    lines: Vec<String>,
}

fn length(text: &str) -> Duration {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> Instant {
    Instant::ORIGIN + length(text)
}

/// A value of the description's format, by its name.
fn named<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_json::from_value(name.into()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Reads `NAME BUDGET/PERIOD {TASKS}`, and leaves what follows.
fn mode(text: &str, cpu: Cpu) -> (DomainMode, &str) {
    let (head, rest) = text.split_once('{').unwrap_or_else(|| panic!("{text}"));
    let (tasks, rest) = rest.split_once('}').unwrap_or_else(|| panic!("{text}"));
    let [name, share] = head.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    let (budget, period) = share.split_once('/').unwrap_or_else(|| panic!("{text}"));
    let mode = DomainMode {
        name: name.to_owned(),
        interface: ResourceInterface {
            budget: length(budget),
            period: length(period),
            priority: Priority(10),
            cpus: [cpu].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        tasks: tasks.split_whitespace().map(str::to_owned).collect(),
    };
    (mode, rest.trim())
}

/// Reads the words of `domain`.
fn change(text: &str) -> DomainChange {
    let (domain, text) = text.split_once(' ').unwrap_or_else(|| panic!("{text}"));
    let (from, text) = mode(text, Cpu(0));
    let text = text.strip_prefix("->").unwrap_or_else(|| panic!("{text}"));
    let (to, mut rest) = mode(text, Cpu(0));
    let mut change = DomainChange {
        domain: domain.to_owned(),
        from,
        tasks_known: true,
        to,
        fallback: None,
        agent: Some(AgentPlace::Inside),
        offset: Duration::ZERO,
        fallback_offset: Duration::ZERO,
    };
    while !rest.is_empty() {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let (value, later) = after.split_once(' ').unwrap_or((after, ""));
        rest = later;
        match word {
            "offset" => change.offset = length(value),
            "fallback-offset" => change.fallback_offset = length(value),
            "on" => move_to(&mut change, Cpu(value.parse().unwrap())),
            "moves-to" => change.to.interface.cpus = [Cpu(value.parse().unwrap())].into(),
            "fallback" => {
                let (fallback, later) = mode(after, Cpu(0));
                change.fallback = Some(fallback);
                rest = later;
            }
            _ => {
                rest = after;
                match word {
                    "outside" => change.agent = Some(AgentPlace::Outside),
                    "no-agent" => change.agent = None,
                    "in-doubt" => change.tasks_known = false,
                    _ => panic!("{word}: no word of `domain`"),
                }
            }
        }
    }
    change
}

fn move_to(change: &mut DomainChange, cpu: Cpu) {
    let modes = [
        Some(&mut change.from),
        Some(&mut change.to),
        change.fallback.as_mut(),
    ];
    for mode in modes.into_iter().flatten() {
        mode.interface.cpus = [cpu].into();
    }
}

/// What takes a change back after what came of it; as in the manager, agents that have not answered are
/// not asked again.
fn back(change: &DomainChange, outcome: &TransitionOutcome) -> DomainChange {
    let settled = &outcome.domains[&change.domain];
    let mode = |held: HeldMode| match held {
        HeldMode::Old => &change.from,
        HeldMode::New => &change.to,
        HeldMode::Fallback => change.fallback.as_ref().unwrap(),
    };
    let any: BTreeSet<String> = change.from.tasks.union(&change.to.tasks).cloned().collect();
    DomainChange {
        from: DomainMode {
            tasks: settled.tasks.map_or(any, |held| mode(held).tasks.clone()),
            ..mode(settled.interface).clone()
        },
        tasks_known: settled.tasks.is_some(),
        to: change.from.clone(),
        agent: change.agent.filter(|_| settled.tasks.is_some()),
        ..change.clone()
    }
}

impl Script {
    fn new() -> Self {
        Self {
            options: Options {
                policy: ChangePolicy::Prompt,
                start: TaskStart::Accepted,
                timeout: Duration::from_millis(100),
            },
            percent: BTreeMap::new(),
            regardless: false,
            changes: Vec::new(),
            agents: Vec::new(),
            refusals: Vec::new(),
            world: None,
            transition: None,
            has_ended: false,
            lines: Vec::new(),
        }
    }

    /// Does what a line says, and returns what comes of a paragraph's lines when all are done.
    fn paragraph(&mut self, commands: &[&str]) -> String {
        for command in commands {
            let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
            let words: Vec<&str> = rest.split_whitespace().collect();
            if !self.prepare(verb, rest, &words) {
                self.act(verb, &words);
            }
        }
        let mut text = std::mem::take(&mut self.lines).join("\n");
        text.push('\n');
        text
    }

    /// Takes note of what a transition is to be; `false` if the command is another one.
    fn prepare(&mut self, verb: &str, rest: &str, words: &[&str]) -> bool {
        match (verb, words) {
            ("policy", [name]) => self.options.policy = named(name),
            ("start", [name]) => self.options.start = named(name),
            ("timeout", [text]) => self.options.timeout = length(text),
            ("regardless", []) => self.regardless = true,
            ("cpu", [cpu, limit]) => {
                let percent = limit.strip_suffix('%').unwrap().parse().unwrap();
                self.percent.insert(Cpu(cpu.parse().unwrap()), percent);
            }
            ("domain", _) => self.changes.push(change(rest)),
            ("agent", [domain, manner @ ..]) => {
                let agent = match manner {
                    ["answers", after] => Agent::Answers(length(after)),
                    ["fails", after] => Agent::Fails(length(after)),
                    ["ends", after] => Agent::Ends(length(after)),
                    ["hangs"] => Agent::Hangs,
                    _ => panic!("{rest}: no manner of an agent"),
                };
                self.agents.push(((*domain).to_owned(), agent));
            }
            ("refuse", [domain]) => self.refusals.push(((*domain).to_owned(), None)),
            ("refuse", [domain, times]) => {
                let times = times.parse().unwrap();
                self.refusals.push(((*domain).to_owned(), Some(times)));
            }
            _ => return false,
        }
        true
    }

    fn act(&mut self, verb: &str, words: &[&str]) {
        match (verb, words) {
            ("run", [now]) => {
                if self.ready(now) {
                    self.run();
                }
            }
            ("back", []) => {
                let outcome = self.transition.as_ref().unwrap().outcome().unwrap();
                let changes = self.changes.iter().map(|change| back(change, &outcome));
                self.changes = changes.collect();
                self.regardless = true;
                let now = words::instant(self.world.as_ref().unwrap().now);
                if self.ready(&now) {
                    self.run();
                }
            }
            ("next", []) => {
                self.changes.clear();
                self.agents.clear();
                self.refusals.clear();
            }
            ("begin", [now]) => {
                if self.ready(now) {
                    self.step(now, |world, transition| world.begin(transition));
                }
            }
            ("wake", [now]) => self.feed(now, TransitionEvent::Woken),
            ("give-up", [now]) => self.step(now, |world, transition| world.give_up(transition)),
            _ => self.tell(verb, words),
        }
    }

    /// Tells the transition what has happened to a domain.
    fn tell(&mut self, verb: &str, words: &[&str]) {
        let [domain, now, rest @ ..] = words else {
            panic!("{verb} {words:?}: no such command");
        };
        let domain = (*domain).to_owned();
        let event = match (verb, rest) {
            ("answer", []) => TransitionEvent::Acknowledged {
                domain,
                received_at: at(now),
                switched_at: at(now),
            },
            ("answer", [switched]) => TransitionEvent::Acknowledged {
                domain,
                received_at: at(switched),
                switched_at: at(switched),
            },
            ("fail", []) => TransitionEvent::Failed {
                domain,
                reason: "it broke".into(),
                rolled_back: true,
            },
            ("fail", ["in-doubt"]) => TransitionEvent::Failed {
                domain,
                reason: "it broke".into(),
                rolled_back: false,
            },
            ("lose", []) => TransitionEvent::Disconnected { domain },
            ("accept", [in_force_at]) => TransitionEvent::InterfaceAccepted {
                domain,
                in_force_at: at(in_force_at),
            },
            ("decline", []) => TransitionEvent::InterfaceRefused {
                domain,
                reason: "no".into(),
            },
            _ => panic!("{verb} {words:?}: no such command"),
        };
        self.feed(now, event);
    }

    /// Makes the transition that was described, after the one before; `false`, written down, if it is
    /// refused.
    fn ready(&mut self, now: &str) -> bool {
        let limits = self.percent.iter();
        let limits = limits.fold(Limits::new(), |limits, (cpu, percent)| {
            limits.with(*cpu, Fraction::new(*percent, 100))
        });
        let mut transition = match Transition::new(self.changes.clone(), limits, self.options) {
            Ok(transition) => transition,
            Err(error) => {
                self.lines.push(format!("refused: {error}"));
                return false;
            }
        };
        if self.regardless {
            transition = transition.regardless();
        }
        if let Some(before) = &self.transition {
            transition = transition.after(&before.holdings());
        }
        let mut world = World::of(&self.changes);
        if let Some(before) = self.world.take() {
            world.follow(before);
        }
        world.now = at(now);
        world.agents.extend(self.agents.iter().cloned());
        for (domain, times) in self.refusals.clone() {
            match times {
                Some(times) => world.refuses_at_first.insert(domain, times).map(drop),
                None => world.refuses.insert(domain).then_some(()),
            };
        }
        (self.world, self.transition) = (Some(world), Some(transition));
        self.has_ended = false;
        true
    }

    fn run(&mut self) {
        let (Some(world), Some(transition)) = (&mut self.world, &mut self.transition) else {
            panic!("nothing to run");
        };
        world.run(transition);
        for (cpu, percent) in &self.percent {
            let most = world.most_in_force(*cpu);
            assert!(
                most <= percent * 10,
                "{most} thousandths of CPU {cpu}: {:?}",
                world.trace
            );
        }
        self.write_down();
    }

    fn feed(&mut self, now: &str, event: TransitionEvent) {
        self.step(now, |world, transition| world.feed(transition, event));
    }

    fn step<T>(&mut self, now: &str, step: impl FnOnce(&mut World, &mut Transition) -> T) {
        let (Some(world), Some(transition)) = (&mut self.world, &mut self.transition) else {
            panic!("nothing has begun");
        };
        world.now = at(now);
        step(world, transition);
        if let Some(wake) = transition.next_wake() {
            world
                .trace
                .push(format!("  wake at {}", words::instant(wake)));
        }
        self.write_down();
    }

    /// Writes down what was done, and what came of it once it is over.
    fn write_down(&mut self) {
        let (Some(world), Some(transition)) = (&mut self.world, &self.transition) else {
            return;
        };
        self.lines.append(&mut world.trace);
        let outcome = transition.outcome().filter(|_| !self.has_ended);
        if let Some(outcome) = outcome {
            self.has_ended = true;
            let latency = transition.timeline().latency().unwrap();
            self.lines.extend(words::outcome(&outcome, latency));
        }
    }
}

/// The script with what comes of its commands now.
fn rerun(text: &str) -> String {
    let mut script = Script::new();
    let mut written = Vec::new();
    for paragraph in text.split("\n\n") {
        let commands = paragraph.split("----").next().unwrap_or_default();
        let lines: Vec<&str> = commands.lines().collect();
        let commands: Vec<&str> = lines
            .iter()
            .copied()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .collect();
        let lines = lines.join("\n");
        if commands.is_empty() {
            written.push(lines);
            continue;
        }
        let came = script.paragraph(&commands);
        written.push(format!("{}\n----\n{}", lines.trim_end(), came.trim_end()));
    }
    written.join("\n\n") + "\n"
}

#[test]
fn transitions_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 30, "only {} scripts", paths.len());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let rerun = rerun(&text);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, rerun).unwrap();
        } else {
            assert_eq!(rerun, text, "{}; UPDATE=1 writes it anew", path.display());
        }
    }
}
