//! The lines of a manifest, a unit or a command that set a CPU limit.

use tailbound_time::Duration;

use crate::{CpuLimit, USUAL_QUOTA_PERIOD};

/// `LimitStanza` is a form in which a CPU limit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitStanza {
    /// `resources` of a container in a manifest of Kubernetes.
    Kubernetes,
    /// `CPUQuota=` of a unit, as a drop-in.
    Systemd,
    /// Options of `docker run` and `podman run`.
    Docker,
}

impl LimitStanza {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Kubernetes, Self::Systemd, Self::Docker];

    /// The name by which the form is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Systemd => "systemd",
            Self::Docker => "docker",
        }
    }

    /// The limit in this form, of a quota in each `period`.
    pub fn of(self, limit: CpuLimit, (quota, period): (Duration, Duration)) -> String {
        let usual = period == USUAL_QUOTA_PERIOD;
        match self {
            Self::Kubernetes => {
                let resources = format!("resources:\n  limits:\n    cpu: {limit}\n");
                match usual {
                    true => resources,
                    false => format!(
                        "# In the configuration of the kubelet: cpuCFSQuotaPeriod: {period}, and the feature gate \
                         CustomCPUCFSQuotaPeriod.\n{resources}"
                    ),
                }
            }
            Self::Systemd => {
                // Limits are in thousandths of a CPU, so a decimal of a percentage is all that there is.
                let percent = limit.billionths() as f64 / 1e7;
                format!("[Service]\nCPUQuota={percent}%\nCPUQuotaPeriodSec={period}\n")
            }
            Self::Docker if usual => {
                format!("--cpus {}\n", limit.billionths() as f64 / 1e9)
            }
            Self::Docker => {
                let micros = |time: Duration| time.as_nanos() / 1_000;
                format!(
                    "--cpu-period {} --cpu-quota {}\n",
                    micros(period),
                    micros(quota)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_form_gives_the_quota() {
        let ms = Duration::from_millis;
        let limit: CpuLimit = "435m".parse().unwrap();
        let usual = (Duration::from_micros(43_500), ms(100));
        let kubernetes = LimitStanza::Kubernetes.of(limit, usual);
        assert_eq!(kubernetes, "resources:\n  limits:\n    cpu: 435m\n");
        let systemd = LimitStanza::Systemd.of(limit, usual);
        assert_eq!(
            systemd,
            "[Service]\nCPUQuota=43.5%\nCPUQuotaPeriodSec=100ms\n"
        );
        assert_eq!(LimitStanza::Docker.of(limit, usual), "--cpus 0.435\n");
        let short = (Duration::from_micros(8_700), ms(20));
        let docker = LimitStanza::Docker.of(limit, short);
        assert_eq!(docker, "--cpu-period 20000 --cpu-quota 8700\n");
        let kubernetes = LimitStanza::Kubernetes.of(limit, short);
        assert!(
            kubernetes.contains("cpuCFSQuotaPeriod: 20ms"),
            "{kubernetes}"
        );
    }
}
