//! What is to be done about one thread of a domain: a decision without a kernel or a clock.

use tailbound_model::CpuSet;

use crate::SchedulingSetting;
use crate::change::is_of_agent;

/// How the threads of one of the domain's groups are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The policy that members get, if the reservation sets one.
    pub scheduling: Option<SchedulingSetting>,
    /// The CPUs that they may run on.
    pub cpus: CpuSet,
}

/// A thread as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its policy.
    pub scheduling: SchedulingSetting,
    /// Its affinity.
    pub affinity: CpuSet,
}

/// What is wrong with a thread's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It came later and does not have the domain's policy yet.
    Newcomer,
    /// It is above the domain's priority, or its children would inherit its policy.
    Raised,
}

/// What is to be done about a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadVerdict {
    /// The policy that it gets, and why.
    pub scheduling: Option<(SchedulingSetting, Fault)>,
    /// The affinity that it gets.
    pub affinity: Option<CpuSet>,
}

/// Whether a policy comes before ordinary threads.
pub fn is_real_time(setting: SchedulingSetting) -> bool {
    use SchedulingSetting as S;
    matches!(
        setting,
        S::Fifo { .. } | S::RoundRobin { .. } | S::Deadline { .. }
    )
}

impl Rules {
    /// Decides about a member of the domain; `is_new` if no earlier look has met it.
    pub fn judge(&self, is_new: bool, seen: &Seen) -> ThreadVerdict {
        ThreadVerdict {
            scheduling: self.policy_for(is_new, seen.scheduling),
            affinity: (!seen.affinity.is_subset(&self.cpus)).then(|| self.cpus.clone()),
        }
    }

    fn policy_for(
        &self,
        is_new: bool,
        seen: SchedulingSetting,
    ) -> Option<(SchedulingSetting, Fault)> {
        use SchedulingSetting as S;
        let wanted = self.scheduling?;
        if is_of_agent(seen) {
            return None;
        }
        let highest = match wanted {
            S::Fifo { priority, .. } | S::RoundRobin { priority, .. } => priority,
            _ => return None,
        };
        let reset_on_fork = true;
        match seen {
            // What RESET_ON_FORK makes of a child. Another nice value, or policy, is a choice.
            S::Other { nice } if is_new && nice <= 0 => Some((wanted, Fault::Newcomer)),
            S::Other { .. } | S::Batch { .. } | S::Idle => None,
            S::Fifo { priority, .. } | S::RoundRobin { priority, .. } if priority > highest => {
                Some((wanted, Fault::Raised))
            }
            S::Deadline { .. } => Some((wanted, Fault::Raised)),
            S::Fifo {
                priority,
                reset_on_fork: false,
            } => {
                let kept = S::Fifo {
                    priority,
                    reset_on_fork,
                };
                Some((kept, Fault::Raised))
            }
            S::RoundRobin {
                priority,
                reset_on_fork: false,
            } => {
                let kept = S::RoundRobin {
                    priority,
                    reset_on_fork,
                };
                Some((kept, Fault::Raised))
            }
            S::Fifo { .. } | S::RoundRobin { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use tailbound_model::Cpu;

    use super::*;

    fn rules() -> Rules {
        Rules {
            scheduling: Some(fifo(50)),
            cpus: [Cpu(1)].into(),
        }
    }

    fn fifo(priority: u8) -> SchedulingSetting {
        SchedulingSetting::Fifo {
            priority,
            reset_on_fork: true,
        }
    }

    fn verdict(is_new: bool, scheduling: SchedulingSetting) -> Option<(SchedulingSetting, Fault)> {
        let affinity = [Cpu(1)].into();
        rules()
            .judge(
                is_new,
                &Seen {
                    scheduling,
                    affinity,
                },
            )
            .scheduling
    }

    #[test]
    fn children_are_adopted_and_choices_honoured() {
        let other = |nice| SchedulingSetting::Other { nice };
        assert_eq!(verdict(true, other(0)), Some((fifo(50), Fault::Newcomer)));
        assert_eq!(verdict(false, other(0)), None, "it lowered itself");
        assert_eq!(verdict(true, other(5)), None, "a nice value is a choice");
        assert_eq!(verdict(true, SchedulingSetting::Idle), None);
        assert_eq!(
            verdict(false, fifo(30)),
            None,
            "a lower priority is one too"
        );
    }

    #[test]
    fn agents_are_left_alone() {
        for priority in 91..=97 {
            assert_eq!(verdict(true, fifo(priority)), None);
        }
        assert_eq!(verdict(false, fifo(98)), Some((fifo(50), Fault::Raised)));
    }

    #[test]
    fn threads_off_their_cpu_are_brought_back() {
        let seen = |cpus: &[u32]| Seen {
            scheduling: fifo(50),
            affinity: cpus.iter().copied().map(Cpu).collect(),
        };
        assert_eq!(rules().judge(false, &seen(&[1])).affinity, None);
        for off in [&[0][..], &[0, 1], &[2, 3]] {
            let to = rules().judge(false, &seen(off)).affinity;
            assert_eq!(to, Some([Cpu(1)].into()), "{off:?}");
        }
    }

    fn any_setting() -> impl Strategy<Value = SchedulingSetting> {
        use SchedulingSetting as S;
        prop_oneof![
            (-20_i8..=19).prop_map(|nice| S::Other { nice }),
            (-20_i8..=19).prop_map(|nice| S::Batch { nice }),
            Just(S::Idle),
            (1_u8..=99, any::<bool>()).prop_map(|(priority, reset_on_fork)| S::Fifo {
                priority,
                reset_on_fork
            }),
            (1_u8..=99, any::<bool>()).prop_map(|(priority, reset_on_fork)| S::RoundRobin {
                priority,
                reset_on_fork
            }),
            Just(S::Deadline {
                runtime_ns: 1_000_000,
                deadline_ns: 10_000_000,
                period_ns: 10_000_000,
                flags: 0
            }),
        ]
    }

    proptest! {
        /// After the verdict no thread but an agent is above the domain or passes a policy on, nothing
        /// low is raised but a newcomer, and a second look finds nothing to do.
        #[test]
        fn a_verdict_settles_the_matter(is_new: bool, scheduling in any_setting(), cpu in 0_u32..3) {
            let rules = rules();
            let mut seen = Seen { scheduling, affinity: [Cpu(cpu)].into() };
            let verdict = rules.judge(is_new, &seen);
            if let Some((to, fault)) = verdict.scheduling {
                prop_assert_eq!(fault == Fault::Newcomer, !is_real_time(scheduling));
                prop_assert!(is_new || fault == Fault::Raised);
                seen.scheduling = to;
            }
            if let Some(to) = verdict.affinity {
                seen.affinity = to;
            }
            prop_assert!(seen.affinity.is_subset(&rules.cpus));
            prop_assert_eq!(rules.judge(false, &seen), ThreadVerdict::default());
            if let SchedulingSetting::Fifo { priority, reset_on_fork } = seen.scheduling {
                prop_assert!(is_of_agent(seen.scheduling) || (priority <= 50 && reset_on_fork));
            }
        }
    }
}
