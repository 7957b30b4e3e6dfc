//! What the paper concludes, and whether it holds here.

use serde::Serialize;

use crate::curves::{Compared, Metric, Parameter};
use crate::study::Row;
use crate::variants::{ALL, IN_FIGURES, SERVERS, Variant};

/// A conclusion of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// A name that stays the same.
    pub id: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// Whether our numbers say so too.
    pub holds: bool,
    /// Whether they do for any seed; `--check` looks at these only. The others turn with the
    /// applications, or do not hold; the README says which.
    pub robust: bool,
    /// The numbers that decide.
    pub evidence: String,
}

/// All conclusions.
pub fn all(rows: &[Row]) -> Vec<Finding> {
    let of = |experiment, overheads| Compared::of(rows, experiment, overheads);
    vec![
        beats_background("beats-background", &of(1, true)),
        beats_background("beats-background-without-overheads", &of(1, false)),
        servers_lose(&of(1, true)),
        sporadic_before_deferrable(&of(1, true)),
        sporadic_leads_when_loaded(&of(1, true)),
        slack_leads_without_overheads(&of(1, false)),
        dual_leads_with_overheads(&of(1, true)),
        overheads_favour_dual(&of(1, false), &of(1, true)),
        gain_matters_for_slack(&of(2, true)),
        self_gain_is_best(&of(2, true)),
        slack_costs_most(&of(1, true)),
    ]
}

fn overall(compared: &Compared<'_>, policy: Variant) -> f64 {
    compared.mean(policy, Metric::Response, |_| true)
}

fn listed(compared: &Compared<'_>, policies: &[Variant]) -> String {
    let texts = policies.iter().map(|policy| {
        let ratio = overall(compared, *policy);
        format!("{} {ratio:.4}", policy.label())
    });
    texts.collect::<Vec<String>>().join(", ")
}

fn beats_background(id: &'static str, compared: &Compared<'_>) -> Finding {
    let parameters = [
        Parameter::HardLoad,
        Parameter::HardTasks,
        Parameter::SoftLoad,
    ];
    let mut largest = (0.0_f64, String::new());
    for policy in ALL.into_iter().filter(|one| *one != Variant::Background) {
        for parameter in parameters {
            for (value, ratio) in compared.curve(policy, Metric::Response, parameter).points {
                if ratio > largest.0 {
                    let place = format!("{}, {} {value}", policy.label(), parameter.label());
                    largest = (ratio, place);
                }
            }
        }
    }
    Finding {
        id,
        claim: "every policy has shorter response times than the background, at every value of every \
                parameter",
        holds: largest.0 < 1.0,
        robust: true,
        evidence: format!("largest ratio {:.4} ({})", largest.0, largest.1),
    }
}

fn servers_lose(compared: &Compared<'_>) -> Finding {
    let best_server = SERVERS
        .iter()
        .map(|server| overall(compared, *server))
        .fold(f64::INFINITY, f64::min);
    let others = IN_FIGURES.iter().filter(|one| !SERVERS.contains(one));
    let worst_other = others
        .map(|other| overall(compared, *other))
        .fold(0.0, f64::max);
    Finding {
        id: "servers-lose",
        claim: "server policies have longer response times than slack stealing and dual priority",
        holds: worst_other < best_server,
        robust: true,
        evidence: listed(compared, &IN_FIGURES),
    }
}

fn sporadic_before_deferrable(compared: &Compared<'_>) -> Finding {
    let [deferrable, sporadic] = SERVERS.map(|server| overall(compared, server));
    Finding {
        id: "sporadic-before-deferrable",
        claim: "the sporadic server is better than the deferrable one, whose budget is smaller",
        holds: sporadic < deferrable,
        robust: true,
        evidence: format!("SS {sporadic:.4}, DS {deferrable:.4}"),
    }
}

fn sporadic_leads_when_loaded(compared: &Compared<'_>) -> Finding {
    let loaded = |policy| compared.mean(policy, Metric::Response, |row| row.hard_load == 60);
    let [deferrable, sporadic] = SERVERS.map(loaded);
    Finding {
        id: "sporadic-leads-when-loaded",
        claim: "the sporadic server leads the deferrable one above all at a high hard load",
        holds: sporadic < deferrable,
        robust: false,
        evidence: format!("at a hard load of 60%: SS {sporadic:.4}, DS {deferrable:.4}"),
    }
}

fn slack_leads_without_overheads(free: &Compared<'_>) -> Finding {
    let (slack, dual) = (overall(free, Variant::Slack), overall(free, Variant::Dual));
    Finding {
        id: "slack-leads-without-overheads",
        claim: "where scheduling costs nothing, slack stealing is at least as good as dual priority",
        holds: slack <= dual,
        robust: false,
        evidence: format!("DASS {slack:.4}, DP {dual:.4}"),
    }
}

fn dual_leads_with_overheads(costly: &Compared<'_>) -> Finding {
    let (slack, dual) = (
        overall(costly, Variant::Slack),
        overall(costly, Variant::Dual),
    );
    Finding {
        id: "dual-leads-with-overheads",
        claim: "where scheduling costs something, dual priority is better than slack stealing",
        holds: dual < slack,
        robust: true,
        evidence: format!("DASS {slack:.4}, DP {dual:.4}"),
    }
}

fn overheads_favour_dual(free: &Compared<'_>, costly: &Compared<'_>) -> Finding {
    let lead = |compared: &Compared<'_>| {
        overall(compared, Variant::Slack) - overall(compared, Variant::Dual)
    };
    let (without, with) = (lead(free), lead(costly));
    Finding {
        id: "overheads-favour-dual",
        claim: "it is the overheads by which dual priority gains on slack stealing",
        holds: without < with,
        robust: true,
        evidence: format!("DASS less DP: {without:+.4} without overheads, {with:+.4} with them"),
    }
}

fn gain_matters_for_slack(compared: &Compared<'_>) -> Finding {
    let slack = overall(compared, Variant::Slack) - overall(compared, Variant::SlackGain);
    let dual_gains = [Variant::DualOwn, Variant::DualPropagated, Variant::DualBoth];
    let best = dual_gains
        .iter()
        .map(|gain| overall(compared, *gain))
        .fold(f64::INFINITY, f64::min);
    let dual = overall(compared, Variant::Dual) - best;
    Finding {
        id: "gain-matters-for-slack",
        claim: "slack stealing is better with gain time, by more than dual priority is",
        holds: slack > 0.0 && slack > dual,
        robust: true,
        evidence: format!("the ratio falls by {slack:.4} for DASS, by {dual:.4} for DP at best"),
    }
}

fn self_gain_is_best(compared: &Compared<'_>) -> Finding {
    let own = overall(compared, Variant::DualOwn);
    let propagated = overall(compared, Variant::DualPropagated);
    Finding {
        id: "self-gain-before-propagated",
        claim: "of the gains of dual priority, self gain is better than propagated gain",
        holds: own < propagated,
        robust: true,
        evidence: format!("self {own:.4}, propagated {propagated:.4}"),
    }
}

fn slack_costs_most(compared: &Compared<'_>) -> Finding {
    let cost = |policy| compared.mean(policy, Metric::SchedulerTime, |_| true);
    let slack = cost(Variant::Slack).min(cost(Variant::SlackGain));
    let others = IN_FIGURES
        .iter()
        .filter(|one| !matches!(one, Variant::Slack | Variant::SlackGain));
    let most = others.map(|other| cost(*other)).fold(0.0, f64::max);
    Finding {
        id: "slack-costs-most",
        claim: "slack stealing takes more time of the scheduler than every other policy",
        holds: slack > most,
        robust: true,
        evidence: format!("at least {slack:.4} of the background's, the others at most {most:.4}"),
    }
}
