//! The controller of a service level: pure, with every time an argument. The rule and the duties are those of
//! docs/reference/service-level-interface.md.

use std::collections::BTreeMap;

/// The least level in the estimate of the gain: a level of zero could not be left otherwise.
const LEAST_GAIN_LEVEL: f64 = 0.05;
/// The least latency in that estimate, as a share of the deadline: one near zero gives no jump.
const LEAST_SHARE_OF_TARGET: f64 = 0.1;

/// `LevelSettings` are the numbers of the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelSettings {
    pub deadline_ns: i128,
    pub interval_ns: i128,
    /// The intervals of the window.
    pub intervals: usize,
    /// The share of an error that an update leaves.
    pub pole: f64,
    /// The share of an update that is carried out upwards.
    pub rise: f64,
    pub initial_level: f64,
}

impl LevelSettings {
    /// The published rule at a deadline.
    pub fn published(deadline_ns: u64) -> Self {
        Self {
            deadline_ns: i128::from(deadline_ns),
            interval_ns: 1_000_000_000,
            intervals: 5,
            pole: 0.9,
            rise: 0.1,
            initial_level: 1.0,
        }
    }

    /// The level after an update.
    fn next_level(&self, level: f64, latency_ns: i128) -> f64 {
        let (deadline, latency) = (self.deadline_ns as f64, latency_ns as f64);
        let gain = level.max(LEAST_GAIN_LEVEL) / latency.max(LEAST_SHARE_OF_TARGET * deadline);
        let change = gain * (1.0 - self.pole) * (deadline - latency);
        let change = match change > 0.0 {
            true => change * self.rise,
            false => change,
        };
        // The level is the integral of the rule, and is cut itself: nothing winds up at the ends.
        (level + change).clamp(0.0, 1.0)
    }
}

/// `LevelAccount` is what an application says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelAccount {
    pub service_level: f64,
    pub deadline_ns: i128,
    /// The longest latency of the window; none without a request.
    pub latency_ns: Option<i128>,
    /// The requests that have ended.
    pub requests: u64,
    /// The time since a request ended last.
    pub age_ns: Option<i128>,
}

impl LevelAccount {
    /// 1 - latency / deadline, from -1 to 1; none without a request in the window.
    pub fn matching_value(&self) -> Option<f64> {
        let latency_ns = self.latency_ns?;
        Some((1.0 - latency_ns as f64 / self.deadline_ns as f64).max(-1.0))
    }
}

/// `ServiceLevel` is a level that follows latencies.
#[derive(Clone, Debug)]
pub(crate) struct ServiceLevel {
    settings: LevelSettings,
    level: f64,
    start_ns: i128,
    now_ns: i128,
    /// The time that is added to the clock, so that time never goes back.
    offset_ns: i128,
    /// The number of the interval that is under way.
    interval_number: usize,
    /// The longest latency of each interval of the window, and of the one that is under way.
    longest_ns: Vec<Option<i128>>,
    /// The begin of each unfinished request, by number.
    open: BTreeMap<u64, i128>,
    last_request: u64,
    requests: u64,
    ended_ns: Option<i128>,
}

impl ServiceLevel {
    /// A level before the first request.
    pub fn new(settings: LevelSettings, start_ns: i128) -> Self {
        assert!(
            settings.deadline_ns > 0 && settings.interval_ns > 0,
            "times of a rule are above zero"
        );
        Self {
            level: settings.initial_level,
            longest_ns: vec![None; settings.intervals + 1],
            settings,
            start_ns,
            now_ns: start_ns,
            offset_ns: 0,
            interval_number: 0,
            open: BTreeMap::new(),
            last_request: 0,
            requests: 0,
            ended_ns: None,
        }
    }

    /// Begins a request that has waited for so long already; returns its number.
    pub fn begin(&mut self, at_ns: i128, waited_ns: i128) -> u64 {
        self.advance(at_ns);
        self.last_request += 1;
        self.open.insert(self.last_request, self.now_ns - waited_ns);
        self.last_request
    }

    /// Ends a request; one that has ended stays so.
    pub fn end(&mut self, request: u64, at_ns: i128) {
        self.advance(at_ns);
        if let Some(begin_ns) = self.open.remove(&request) {
            self.record(self.now_ns - begin_ns);
        }
    }

    /// Takes the latency of a request that has ended now; a negative one is none.
    pub fn observe(&mut self, latency_ns: i128, at_ns: i128) {
        self.advance(at_ns);
        if latency_ns >= 0 {
            self.record(latency_ns);
        }
    }

    /// The probability that optional content is served.
    pub fn level(&mut self, at_ns: i128) -> f64 {
        self.advance(at_ns);
        self.level
    }

    /// Everything at once.
    pub fn report(&mut self, at_ns: i128) -> LevelAccount {
        self.advance(at_ns);
        LevelAccount {
            service_level: self.level,
            deadline_ns: self.settings.deadline_ns,
            latency_ns: self.latency_at(self.now_ns),
            requests: self.requests,
            age_ns: self.ended_ns.map(|ended_ns| self.now_ns - ended_ns),
        }
    }

    fn record(&mut self, latency_ns: i128) {
        let place = self.interval_number % self.longest_ns.len();
        self.longest_ns[place] = self.longest_ns[place].max(Some(latency_ns));
        self.requests += 1;
        self.ended_ns = Some(self.now_ns);
    }

    /// The longest latency of the window. A request that is unfinished after the deadline counts with its age.
    fn latency_at(&self, now_ns: i128) -> Option<i128> {
        let first = self.open.first_key_value();
        let age_ns = first.map(|(_, begin_ns)| now_ns - begin_ns);
        let late_ns = age_ns.filter(|age_ns| *age_ns > self.settings.deadline_ns);
        self.longest_ns.iter().copied().max().flatten().max(late_ns)
    }

    /// Carries out the updates that are due; after a gap, those of one window.
    fn advance(&mut self, at_ns: i128) {
        let mut now_ns = at_ns + self.offset_ns;
        if now_ns < self.now_ns - self.settings.interval_ns {
            self.offset_ns += self.now_ns - now_ns;
            now_ns = self.now_ns;
        }
        // Threads that read the clock one after the other may come in the other order.
        self.now_ns = self.now_ns.max(now_ns);
        let passed = (self.now_ns - self.start_ns) / self.settings.interval_ns;
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        let due = passed.saturating_sub(self.interval_number);
        for _ in 0..due.min(self.settings.intervals) {
            self.update();
        }
        if due > self.settings.intervals {
            self.interval_number += due - self.settings.intervals;
            self.longest_ns.fill(None);
        }
    }

    fn update(&mut self) {
        self.interval_number += 1;
        let place = self.interval_number % self.longest_ns.len();
        self.longest_ns[place] = None;
        let boundary_ns = self.start_ns + self.interval_number as i128 * self.settings.interval_ns;
        if let Some(latency_ns) = self.latency_at(boundary_ns) {
            self.level = self.settings.next_level(self.level, latency_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    const SCENARIOS: &str = include_str!("../../../../docs/reference/service-level-scenarios.json");

    fn number(value: &Value) -> Option<i128> {
        value.as_i64().map(i128::from)
    }

    fn settings(described: &Value) -> LevelSettings {
        let time = |key: &str| number(&described[key]).unwrap();
        let share = |key: &str| described[key].as_f64().unwrap();
        LevelSettings {
            deadline_ns: time("deadline_ns"),
            interval_ns: time("interval_ns"),
            intervals: usize::try_from(time("window_ns") / time("interval_ns")).unwrap(),
            pole: share("pole"),
            rise: share("rise"),
            initial_level: share("initial_level"),
        }
    }

    fn assert_reports(level: &mut ServiceLevel, at_ns: i128, wanted: &Value, place: &str) {
        let report = level.report(at_ns);
        let is_near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        let wanted_level = wanted["service_level"].as_f64().unwrap();
        assert!(
            is_near(report.service_level, wanted_level),
            "{place}: {report:?}"
        );
        let matching = (report.matching_value(), wanted["matching_value"].as_f64());
        match matching {
            (Some(one), Some(other)) => assert!(is_near(one, other), "{place}: {report:?}"),
            (one, other) => assert_eq!(one, other, "{place}"),
        }
        assert_eq!(report.latency_ns, number(&wanted["latency_ns"]), "{place}");
        assert_eq!(report.age_ns, number(&wanted["age_ns"]), "{place}");
        assert_eq!(
            Some(report.requests),
            wanted["requests"].as_u64(),
            "{place}"
        );
    }

    #[test]
    fn the_controller_passes_every_scenario_of_the_interface() {
        let all: Value = serde_json::from_str(SCENARIOS).unwrap();
        let scenarios = all["scenarios"].as_array().unwrap();
        assert!(scenarios.len() > 20);
        for scenario in scenarios {
            let start_ns = number(&scenario["start_ns"]).unwrap();
            let mut level = ServiceLevel::new(settings(&scenario["settings"]), start_ns);
            let mut numbers = BTreeMap::new();
            for (place, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
                let at_ns = number(&step["at_ns"]).unwrap();
                if let Some(name) = step["begin"].as_str() {
                    let waited_ns = number(&step["waited_ns"]).unwrap_or(0);
                    numbers.insert(name.to_owned(), level.begin(at_ns, waited_ns));
                } else if let Some(name) = step["end"].as_str() {
                    level.end(numbers[name], at_ns);
                } else if let Some(latency_ns) = number(&step["observe_ns"]) {
                    level.observe(latency_ns, at_ns);
                } else {
                    let place = format!("{}, step {place}", scenario["name"]);
                    assert_reports(&mut level, at_ns, &step["expect"], &place);
                }
            }
        }
    }
}
