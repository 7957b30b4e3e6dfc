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

impl Finding {
    /// A conclusion that turns out the same with any seed.
    fn robust(id: &'static str, claim: &'static str, holds: bool, evidence: String) -> Self {
        Self {
            id,
            claim,
            holds,
            robust: true,
            evidence,
        }
    }

    /// A conclusion that turns with the applications.
    fn by_chance(id: &'static str, claim: &'static str, holds: bool, evidence: String) -> Self {
        Self {
            robust: false,
            ..Self::robust(id, claim, holds, evidence)
        }
    }
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

fn least(compared: &Compared<'_>, policies: &[Variant]) -> f64 {
    let ratios = policies.iter().map(|policy| overall(compared, *policy));
    ratios.fold(f64::INFINITY, f64::min)
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
    Finding::robust(
        id,
        "every policy has shorter response times than the background, at every value of every \
                parameter",
        largest.0 < 1.0,
        format!("largest ratio {:.4} ({})", largest.0, largest.1),
    )
}

fn servers_lose(compared: &Compared<'_>) -> Finding {
    let best_server = least(compared, &SERVERS);
    let others = IN_FIGURES.iter().filter(|one| !SERVERS.contains(one));
    let worst_other = others
        .map(|other| overall(compared, *other))
        .fold(0.0, f64::max);
    Finding::robust(
        "servers-lose",
        "server policies have longer response times than slack stealing and dual priority",
        worst_other < best_server,
        listed(compared, &IN_FIGURES),
    )
}

fn sporadic_before_deferrable(compared: &Compared<'_>) -> Finding {
    let [deferrable, sporadic] = SERVERS.map(|server| overall(compared, server));
    Finding::robust(
        "sporadic-before-deferrable",
        "the sporadic server is better than the deferrable one, whose budget is smaller",
        sporadic < deferrable,
        format!("SS {sporadic:.4}, DS {deferrable:.4}"),
    )
}

fn sporadic_leads_when_loaded(compared: &Compared<'_>) -> Finding {
    let loaded = |policy| compared.mean(policy, Metric::Response, |row| row.hard_load == 60);
    let [deferrable, sporadic] = SERVERS.map(loaded);
    Finding::by_chance(
        "sporadic-leads-when-loaded",
        "the sporadic server leads the deferrable one above all at a high hard load",
        sporadic < deferrable,
        format!("at a hard load of 60%: SS {sporadic:.4}, DS {deferrable:.4}"),
    )
}

fn slack_leads_without_overheads(free: &Compared<'_>) -> Finding {
    let (slack, dual) = (overall(free, Variant::Slack), overall(free, Variant::Dual));
    Finding::by_chance(
        "slack-leads-without-overheads",
        "where scheduling costs nothing, slack stealing is at least as good as dual priority",
        slack <= dual,
        format!("DASS {slack:.4}, DP {dual:.4}"),
    )
}

fn dual_leads_with_overheads(costly: &Compared<'_>) -> Finding {
    let (slack, dual) = (
        overall(costly, Variant::Slack),
        overall(costly, Variant::Dual),
    );
    Finding::robust(
        "dual-leads-with-overheads",
        "where scheduling costs something, dual priority is better than slack stealing",
        dual < slack,
        format!("DASS {slack:.4}, DP {dual:.4}"),
    )
}

fn overheads_favour_dual(free: &Compared<'_>, costly: &Compared<'_>) -> Finding {
    let lead = |compared: &Compared<'_>| {
        overall(compared, Variant::Slack) - overall(compared, Variant::Dual)
    };
    let (without, with) = (lead(free), lead(costly));
    Finding::robust(
        "overheads-favour-dual",
        "it is the overheads by which dual priority gains on slack stealing",
        without < with,
        format!("DASS less DP: {without:+.4} without overheads, {with:+.4} with them"),
    )
}

fn gain_matters_for_slack(compared: &Compared<'_>) -> Finding {
    let slack = overall(compared, Variant::Slack) - overall(compared, Variant::SlackGain);
    let dual_gains = [Variant::DualOwn, Variant::DualPropagated, Variant::DualBoth];
    let dual = overall(compared, Variant::Dual) - least(compared, &dual_gains);
    Finding::robust(
        "gain-matters-for-slack",
        "slack stealing is better with gain time, by more than dual priority is",
        slack > 0.0 && slack > dual,
        format!("the ratio falls by {slack:.4} for DASS, by {dual:.4} for DP at best"),
    )
}

fn self_gain_is_best(compared: &Compared<'_>) -> Finding {
    let own = overall(compared, Variant::DualOwn);
    let propagated = overall(compared, Variant::DualPropagated);
    Finding::robust(
        "self-gain-before-propagated",
        "of the gains of dual priority, self gain is better than propagated gain",
        own < propagated,
        format!("self {own:.4}, propagated {propagated:.4}"),
    )
}

fn slack_costs_most(compared: &Compared<'_>) -> Finding {
    let cost = |policy| compared.mean(policy, Metric::SchedulerTime, |_| true);
    let slack = cost(Variant::Slack).min(cost(Variant::SlackGain));
    let others = IN_FIGURES
        .iter()
        .filter(|one| !matches!(one, Variant::Slack | Variant::SlackGain));
    let most = others.map(|other| cost(*other)).fold(0.0, f64::max);
    Finding::robust(
        "slack-costs-most",
        "slack stealing takes more time of the scheduler than every other policy",
        slack > most,
        format!("at least {slack:.4} of the background's, the others at most {most:.4}"),
    )
}
