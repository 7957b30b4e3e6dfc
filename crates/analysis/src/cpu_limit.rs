//! Limits of CPU time as Kubernetes, systemd, Docker and the kernel write them.

use std::fmt;
use std::str::FromStr;

use tailbound_model::{BackendKind, ReservationServer};
use tailbound_time::Duration;

use crate::cap::rule_of_cap;
use crate::notation::{NotationError, decimal, time};

/// The period of a quota where none is given: the default of the kernel, of Kubernetes, systemd and Docker.
pub const USUAL_QUOTA_PERIOD: Duration = Duration::from_millis(100);

/// Billionths of a CPU in a thousandth of one, the finest limit that Kubernetes takes.
pub const MILLI_CPU: u64 = 1_000_000;
/// Billionths of a CPU in a CPU.
const CPU: u64 = 1_000 * MILLI_CPU;
/// More CPUs than any host has.
const MOST_CPUS: u64 = 1_000_000;

/// `CpuLimit` is a limit of CPU time: a number of CPUs, whatever the period of the quota, or a quota in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuLimit {
    /// A number of CPUs, in billionths, above zero.
    Cpus {
        /// The billionths.
        billionths: u64,
    },
    /// A quota in each period.
    Quota {
        /// The CPU time in each period, above zero, in whole microseconds.
        quota: Duration,
        /// The period, in whole microseconds.
        period: Duration,
    },
}

/// `Quota` is the CPU time that a domain may use in each period, as the kernel counts it: in whole microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The CPU time in each period; above the period where there are several CPUs.
    pub quota: Duration,
    /// The period.
    pub period: Duration,
}

/// How a limit is written.
const LIMIT: &str = "a limit is a number of CPUs such as 0.13 or 130m (Kubernetes, docker --cpus), a percentage such as \
                     13% (systemd's CPUQuota), a quota and its period such as 13ms/100ms, or a line of cpu.max such as \
                     \"13000 100000\"";

impl FromStr for CpuLimit {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Some((quota, period)) = text.split_once('/') {
            return Self::of_quota(time(quota, LIMIT)?, time(period, LIMIT)?);
        }
        if let Some((quota, period)) = text.split_once(char::is_whitespace) {
            if quota == "max" {
                return Err(NotationError::new("\"max\" is no limit", LIMIT));
            }
            let micros = |number: &str| time(&format!("{}us", number.trim()), LIMIT);
            return Self::of_quota(micros(quota)?, micros(period)?);
        }
        let wrong = || NotationError::new(format!("\"{text}\" is no limit of CPU time"), LIMIT);
        // A number with so many decimals counts billionths of a CPU.
        let (number, decimals) = match (text.strip_suffix('m'), text.strip_suffix('%')) {
            (Some(number), _) => (number, 6),
            (_, Some(number)) => (number, 7),
            _ => (text, 9),
        };
        let billionths = decimal(number, decimals).ok_or_else(wrong)?;
        if billionths == 0 {
            return Err(NotationError::new("a limit lies above zero", LIMIT));
        }
        if billionths > MOST_CPUS * CPU {
            return Err(wrong());
        }
        Ok(Self::Cpus { billionths })
    }
}

impl CpuLimit {
    /// A quota in whole microseconds, rounded down as the kernel's files do.
    fn of_quota(quota: Duration, period: Duration) -> Result<Self, NotationError> {
        let (quota, period) = (whole_micros(quota), whole_micros(period));
        let checked = Quota { quota, period }.checked()?;
        if checked.quota.as_nanos() / checked.period.as_nanos() > MOST_CPUS {
            let what = format!("{quota} in {period} is more than any host has");
            return Err(NotationError::new(what, LIMIT));
        }
        Ok(Self::Quota { quota, period })
    }

    /// The quota in each `period`, which a limit of both gives itself.
    ///
    /// # Errors
    /// A quota or a period that the kernel does not take, and a second period.
    pub fn quota(self, period: Option<Duration>) -> Result<Quota, NotationError> {
        match (self, period) {
            (Self::Quota { quota, period }, None) => Ok(Quota { quota, period }),
            (Self::Quota { .. }, Some(_)) => Err(NotationError::new(
                format!("the limit {self} has a period already"),
                "give the period once",
            )),
            (Self::Cpus { billionths }, period) => {
                let period = whole_micros(period.unwrap_or(USUAL_QUOTA_PERIOD));
                let quota = whole_micros(period.scaled_down(billionths, CPU));
                Quota { quota, period }.checked()
            }
        }
    }

    /// The billionths of a CPU; of a quota rounded down.
    pub fn billionths(self) -> u64 {
        match self {
            Self::Cpus { billionths } => billionths,
            Self::Quota { quota, period } => Duration::from_nanos(CPU)
                .scaled_down(quota.as_nanos(), period.as_nanos())
                .as_nanos(),
        }
    }

    /// The least limit in thousandths of a CPU whose quota is at least `quota` in each `period`.
    pub fn at_least(quota: Duration, period: Duration) -> Self {
        let exact = u128::from(quota.as_nanos()) * 1_000;
        let thousandths = exact.div_ceil(u128::from(period.as_nanos().max(1))).max(1);
        let most = MOST_CPUS * CPU / MILLI_CPU;
        let thousandths = u64::try_from(thousandths).unwrap_or(most).min(most);
        Self::Cpus {
            billionths: thousandths * MILLI_CPU,
        }
    }
}

impl Quota {
    /// The quota, if the kernel takes it.
    fn checked(self) -> Result<Self, NotationError> {
        let traits = BackendKind::CPU_LIMIT.traits();
        let (shortest, longest) = (traits.shortest_period, traits.longest_period);
        let Self { quota, period } = self;
        if !(shortest..=longest).contains(&period) {
            let what = format!(
                "the kernel takes quotas of periods from {shortest} to {longest}, and not of {period}"
            );
            return Err(NotationError::new(what, LIMIT));
        }
        if quota < traits.smallest_budget {
            let least = traits.smallest_budget;
            let what =
                format!("the kernel takes quotas of {least} and more, and not {quota} in {period}");
            return Err(NotationError::new(
                what,
                "raise the limit, or lengthen the period",
            ));
        }
        Ok(self)
    }

    /// The rule by which the quota gives CPU time where nothing else needs the CPU.
    pub fn rule(self) -> ReservationServer {
        rule_of_cap(self.quota, self.period)
    }
}

fn whole_micros(time: Duration) -> Duration {
    Duration::from_nanos(time.as_nanos() / 1_000 * 1_000)
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { quota, period } => out.pad(&format!("{quota}/{period}")),
            Self::Cpus { billionths } if billionths.is_multiple_of(MILLI_CPU) => {
                out.pad(&format!("{}m", billionths / MILLI_CPU))
            }
            Self::Cpus { billionths } => {
                let decimals = format!("{:09}", billionths % CPU);
                let shown = format!("{}.{}", billionths / CPU, decimals.trim_end_matches('0'));
                out.pad(&shown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn quota(text: &str, period: Option<Duration>) -> Quota {
        text.parse::<CpuLimit>().unwrap().quota(period).unwrap()
    }

    #[test]
    fn every_spelling_of_a_limit_is_the_same_quota() {
        let expected = Quota {
            quota: Duration::from_millis(13),
            period: Duration::from_millis(100),
        };
        for text in [
            "130m",
            "13%",
            "0.13",
            "13ms/100ms",
            "13000 100000",
            " 130.0m",
            "13.0%",
            "13000us/0.1s",
        ] {
            assert_eq!(quota(text, None), expected, "{text}");
        }
        let short = quota("130m", Some(Duration::from_millis(10)));
        assert_eq!(short.quota, Duration::from_micros(1_300));
        assert_eq!(quota("2.5", None).quota, Duration::from_millis(250));
        assert_eq!(quota("250%", None).quota, Duration::from_millis(250));
    }

    /// Kubernetes and Docker cut off what is below a microsecond.
    #[test]
    fn a_quota_is_in_whole_microseconds() {
        let period = Some(Duration::from_micros(12_345));
        assert_eq!(quota("333m", period).quota, Duration::from_micros(4_110));
        assert_eq!(
            quota("0.123456789", None).quota,
            Duration::from_micros(12_345)
        );
    }

    #[test]
    fn what_is_no_limit_says_why() {
        for (text, part) in [
            ("", "\"\" is no limit of CPU time"),
            ("130", ""),
            ("0", "above zero"),
            ("0m", "above zero"),
            ("-1", "\"-1\" is no limit"),
            ("1e3m", "\"1e3m\" is no limit"),
            ("0.0000000001", "is no limit"),
            ("2000000", "is no limit"),
            ("max 100000", "\"max\" is no limit"),
            ("13000 x", "\"xus\" is no time"),
            ("13/100ms", "\"13\" is no time"),
            (
                "500us/100ms",
                "quotas of 1ms and more, and not 500us in 100ms",
            ),
            ("1ms/2s", "periods from 1ms to 1s, and not of 2s"),
        ] {
            match text.parse::<CpuLimit>() {
                Ok(_) => assert!(part.is_empty(), "{text}"),
                Err(error) => assert!(error.to_string().contains(part), "{text}: {error}"),
            }
        }
        let refused = |text: &str, period| {
            let limit: CpuLimit = text.parse().unwrap();
            limit.quota(period).unwrap_err().to_string()
        };
        assert!(refused("5m", None).contains("not 500us in 100ms"));
        let second = refused("13ms/100ms", Some(Duration::from_millis(10)));
        assert!(
            second.contains("13ms/100ms has a period already"),
            "{second}"
        );
        let long = refused("130m", Some(Duration::from_secs(2)));
        assert!(long.contains("not of 2s"), "{long}");
    }

    #[test]
    fn a_limit_for_a_quota_is_rounded_up() {
        let ms = Duration::from_millis;
        let least = |quota| CpuLimit::at_least(quota, ms(100)).to_string();
        assert_eq!(least(ms(13)), "130m");
        assert_eq!(least(Duration::from_nanos(13_000_001)), "131m");
        assert_eq!(least(ms(100)), "1000m");
    }

    proptest! {
        #[test]
        fn a_limit_reads_as_it_is_written(billionths in 1..MOST_CPUS * CPU, quota_us in 1_000_u64..1_000_000_000, period_us in 1_000_u64..1_000_000) {
            let quota = CpuLimit::Quota {
                quota: Duration::from_micros(quota_us),
                period: Duration::from_micros(period_us),
            };
            for limit in [CpuLimit::Cpus { billionths }, quota] {
                prop_assert_eq!(limit.to_string().parse::<CpuLimit>(), Ok(limit));
            }
        }

        #[test]
        fn a_rounded_limit_gives_the_quota_and_a_thousandth_less_does_not(quota_ns in 10_000_000_u64..1_000_000_000, period_ms in 1_u64..1_000) {
            let (quota, period) = (Duration::from_nanos(quota_ns), Duration::from_millis(period_ms));
            let CpuLimit::Cpus { billionths } = CpuLimit::at_least(quota, period) else {
                unreachable!("a rounded limit is a number of CPUs");
            };
            prop_assert!(period.scaled_down(billionths, CPU) >= quota);
            prop_assert!(period.scaled_up(billionths - MILLI_CPU, CPU) < quota);
        }

        #[test]
        fn no_text_is_a_reason_to_panic(text in "\\PC{0,24}|[0-9.mu%/ ]{0,24}") {
            let _ = text.parse::<CpuLimit>();
        }
    }
}
