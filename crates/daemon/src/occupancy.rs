//! Whether the domains of reservations have members, and what follows if they have none.
//!
//! A pure state machine: the daemon looks now and then, tells what it saw and when, and carries out
//! the steps that come of it. The rule: a reservation that is kept for nobody is released after
//! [`GRACE`], so that its budget is there for others; one that waits for members who come back under
//! the same cgroup path stays booked, lets go of the kernel's objects, and is bound to the new
//! members when they are there. Reservations of running commands and of modes stay as they are:
//! whoever holds those decides.

use std::collections::BTreeMap;

use tailbound_control::Presence;
use tailbound_enforcement::Sight;
use tailbound_time::{Duration, Instant};

/// How long a reservation whose members have all ended stays before it is released.
pub const GRACE: Duration = Duration::from_secs(3);

/// What is to become of a reservation without members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VacancyRule {
    /// It ends.
    Release,
    /// It waits for others, and is bound to them.
    Keep,
    /// Whoever holds it decides.
    Hold,
}

/// What was seen of one reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Its domain.
    pub domain: String,
    /// What is to become of it without members.
    pub rule: VacancyRule,
    /// What its domain was seen to be.
    pub sight: Sight,
}

/// What is to be done for a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OccupancyStep {
    /// Take the reservation back.
    Release,
    /// Take back what it changed, and keep its budget booked.
    Detach,
    /// Put it in force for the members that are there now.
    Bind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vacancy {
    Empty { since: Instant, rule: VacancyRule },
    Waiting { since: Instant },
}

impl Vacancy {
    fn since(self) -> Instant {
        match self {
            Self::Empty { since, .. } | Self::Waiting { since } => since,
        }
    }
}

/// The domains that were seen without members.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    vacant: BTreeMap<String, Vacancy>,
}

impl Occupancy {
    /// Takes in what was seen of all reservations at an instant, and tells what is to be done.
    pub fn look(&mut self, now: Instant, seen: &[Observation]) -> Vec<(String, OccupancyStep)> {
        let is_observed = |domain: &String| seen.iter().any(|one| one.domain == *domain);
        self.vacant.retain(|domain, _| is_observed(domain));
        let steps = seen.iter().filter_map(|one| {
            let step = self.step(now, one)?;
            Some((one.domain.clone(), step))
        });
        steps.collect()
    }

    fn step(&mut self, now: Instant, seen: &Observation) -> Option<OccupancyStep> {
        let Observation {
            domain,
            rule,
            sight,
        } = seen;
        match (self.vacant.get(domain).copied(), sight) {
            // It is so until [`Occupancy::bound`] says otherwise: binding may fail.
            (Some(Vacancy::Waiting { .. }), Sight::Members | Sight::Strangers) => {
                Some(OccupancyStep::Bind)
            }
            (Some(Vacancy::Waiting { .. }), Sight::Nobody) => None,
            (_, Sight::Strangers) if *rule == VacancyRule::Keep => Some(OccupancyStep::Bind),
            (_, Sight::Members | Sight::Strangers) => {
                self.vacant.remove(domain);
                None
            }
            (vacancy, Sight::Nobody) => {
                let since = vacancy.map_or(now, Vacancy::since);
                let vacant = Vacancy::Empty { since, rule: *rule };
                self.vacant.insert(domain.clone(), vacant);
                // What was seen once may have come between two members.
                vacancy?;
                match rule {
                    VacancyRule::Hold => None,
                    VacancyRule::Keep => Some(OccupancyStep::Detach),
                    VacancyRule::Release => {
                        (now.saturating_since(since) >= GRACE).then_some(OccupancyStep::Release)
                    }
                }
            }
        }
    }

    /// The reservation of `domain` has let go of the kernel's objects.
    pub fn detached(&mut self, domain: &str, now: Instant) {
        let vacancy = self.vacant.get(domain).copied();
        let since = vacancy.map_or(now, Vacancy::since);
        let vacancy = Vacancy::Waiting { since };
        self.vacant.insert(domain.to_owned(), vacancy);
    }

    /// The reservation of `domain` is in force for the members that are there.
    pub fn bound(&mut self, domain: &str) {
        self.vacant.remove(domain);
    }

    /// Whether the reservation of `domain` holds for anybody.
    pub fn presence(&self, domain: &str, now: Instant) -> Presence {
        match self.vacant.get(domain) {
            None => Presence::InForce,
            Some(Vacancy::Waiting { since }) => Presence::Waiting {
                for_ns: now.saturating_since(*since),
            },
            Some(Vacancy::Empty { since, rule }) => {
                let for_ns = now.saturating_since(*since);
                let released_in_ns =
                    (*rule == VacancyRule::Release).then(|| GRACE.saturating_sub(for_ns));
                Presence::Empty {
                    for_ns,
                    released_in_ns,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(500);

    fn seen(rule: VacancyRule, sight: Sight) -> [Observation; 1] {
        [Observation {
            domain: "web".into(),
            rule,
            sight,
        }]
    }

    fn at(ticks: u64) -> Instant {
        Instant::from_nanos(ticks * TICK.as_nanos())
    }

    #[test]
    fn a_domain_by_processes_is_released_after_the_grace() {
        let mut occupancy = Occupancy::default();
        assert_eq!(
            occupancy.look(at(0), &seen(VacancyRule::Release, Sight::Members)),
            []
        );
        assert_eq!(occupancy.presence("web", at(0)), Presence::InForce);
        for tick in 1..7 {
            let steps = occupancy.look(at(tick), &seen(VacancyRule::Release, Sight::Nobody));
            assert_eq!(steps, [], "{tick}");
        }
        let words = occupancy.presence("web", at(3)).in_words();
        assert_eq!(words, "no members for 1 s, released in 2 s");
        let steps = occupancy.look(at(7), &seen(VacancyRule::Release, Sight::Nobody));
        assert_eq!(steps, [("web".to_owned(), OccupancyStep::Release)]);
        // Taking it back failed: it is tried again.
        let steps = occupancy.look(at(8), &seen(VacancyRule::Release, Sight::Nobody));
        assert_eq!(steps, [("web".to_owned(), OccupancyStep::Release)]);
        assert_eq!(occupancy.look(at(9), &[]), []);
        assert_eq!(occupancy.presence("web", at(9)), Presence::InForce);
    }

    #[test]
    fn a_container_is_waited_for_and_bound_again() {
        let mut occupancy = Occupancy::default();
        let keep = |sight| seen(VacancyRule::Keep, sight);
        assert_eq!(occupancy.look(at(0), &keep(Sight::Nobody)), []);
        let steps = occupancy.look(at(1), &keep(Sight::Nobody));
        assert_eq!(steps, [("web".to_owned(), OccupancyStep::Detach)]);
        occupancy.detached("web", at(1));
        assert_eq!(occupancy.look(at(20), &keep(Sight::Nobody)), []);
        let words = occupancy.presence("web", at(20)).in_words();
        assert_eq!(words, "waiting for members for 10 s");
        // Binding fails at first.
        for tick in 21..23 {
            let steps = occupancy.look(at(tick), &keep(Sight::Strangers));
            assert_eq!(steps, [("web".to_owned(), OccupancyStep::Bind)]);
        }
        occupancy.bound("web");
        assert_eq!(occupancy.look(at(24), &keep(Sight::Members)), []);
        assert_eq!(occupancy.presence("web", at(24)), Presence::InForce);
        // It is started anew between two looks.
        let steps = occupancy.look(at(25), &keep(Sight::Strangers));
        assert_eq!(steps, [("web".to_owned(), OccupancyStep::Bind)]);
    }

    #[test]
    fn what_others_hold_is_shown_and_left_alone() {
        let mut occupancy = Occupancy::default();
        for tick in 0..100 {
            assert_eq!(
                occupancy.look(at(tick), &seen(VacancyRule::Hold, Sight::Nobody)),
                []
            );
        }
        let words = occupancy.presence("web", at(100)).in_words();
        assert_eq!(words, "no members for 50 s");
        assert_eq!(
            occupancy.look(at(101), &seen(VacancyRule::Hold, Sight::Strangers)),
            []
        );
        assert_eq!(occupancy.presence("web", at(101)), Presence::InForce);
    }

    proptest! {
        #[test]
        fn nothing_is_released_that_was_seen_with_members_within_the_grace(
            looks in prop::collection::vec((0_u64..4, 0_u8..3, 0_u8..3), 1..60),
        ) {
            let mut occupancy = Occupancy::default();
            let (mut now, mut last_members) = (Instant::ORIGIN, None);
            for (ticks, rule, sight) in looks {
                now = now.saturating_add(Duration::from_nanos(ticks * TICK.as_nanos()));
                let rule = [VacancyRule::Release, VacancyRule::Keep, VacancyRule::Hold][usize::from(rule)];
                let sight = [Sight::Members, Sight::Nobody, Sight::Strangers][usize::from(sight)];
                if sight != Sight::Nobody || last_members.is_none() {
                    last_members = Some(now);
                }
                for (_, step) in occupancy.look(now, &seen(rule, sight)) {
                    let since = now.saturating_since(last_members.unwrap_or(now));
                    match step {
                        OccupancyStep::Release => {
                            prop_assert_eq!(rule, VacancyRule::Release);
                            prop_assert!(since >= GRACE);
                        }
                        OccupancyStep::Detach => {
                            prop_assert_eq!(rule, VacancyRule::Keep);
                            prop_assert_eq!(sight, Sight::Nobody);
                            occupancy.detached("web", now);
                        }
                        OccupancyStep::Bind => {
                            prop_assert!(sight != Sight::Nobody);
                            occupancy.bound("web");
                        }
                    }
                }
                if sight == Sight::Nobody {
                    prop_assert!(occupancy.presence("web", now) != Presence::InForce);
                }
            }
        }
    }
}
