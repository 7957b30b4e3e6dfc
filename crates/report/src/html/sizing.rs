//! What sizing found, as one page that needs nothing but a browser: every period that was looked at
//! against the bandwidth that it needs.

use serde_json::{Value, json};
use tailbound_analysis::sizing::{Choice, Sizing};
use tailbound_distribution::Evidence;
use tailbound_time::Duration;

use super::escape::escaped;
use super::{Page, PageScript, facts, table_markup};
use crate::palette::Theme;
use crate::wording::{UNKNOWN, exactly};
use crate::{Cell, Table, columns};

const SIZING_SCRIPT: &str = include_str!("../../assets/sizing.js");

/// A page of grids.
#[derive(Clone, Debug, Default)]
pub struct SizingPage {
    /// What was sized: the name of a description, or a queue in words.
    pub title: String,
    /// The version that found it.
    pub tailbound_version: String,
    /// One per service and mode.
    pub grids: Vec<SizingGrid>,
}

/// The periods that were looked at for one service.
#[derive(Clone, Debug, Default)]
pub struct SizingGrid {
    /// The service, with its mode if there are modes.
    pub name: String,
    /// How the budgets were found, and of which periods.
    pub rule: String,
    /// The answer, if there is one.
    pub sizing: Option<Sizing>,
    /// Why there is no answer, or what stands against the choice.
    pub objections: Vec<String>,
    /// The reservation of the choice, as TOML.
    pub stanza: Option<String>,
}

impl SizingGrid {
    fn choices(&self) -> &[Choice] {
        self.sizing.as_ref().map_or(&[], |sizing| &sizing.choices)
    }

    /// Whether a period is the choice.
    fn is_chosen(&self, choice: &Choice) -> bool {
        self.sizing
            .as_ref()
            .is_some_and(|one| one.is_chosen(choice))
    }
}

/// A budget as percent of the period.
fn percent(choice: &Choice, budget: Option<Duration>) -> Option<f64> {
    let budget = budget?.as_nanos() as f64;
    Some(100.0 * budget / choice.period.as_nanos().max(1) as f64)
}

/// The page. It holds its own scripts, styles and data, and loads nothing.
pub fn render_sizing_html(page: &SizingPage) -> String {
    let data = json!({
        "palette": {
            "light": Theme::Light.palette().variants(),
            "dark": Theme::Dark.palette().variants(),
        },
        "grids": page.grids.iter().map(grid_data).collect::<Vec<_>>(),
    });
    let page = Page {
        title: &page.title,
        tailbound_version: &page.tailbound_version,
        skip_to: None,
        facts: facts(&["reservations by period and bandwidth"]),
        content: page.grids.iter().enumerate().map(section).collect(),
        script: Some(PageScript {
            code: SIZING_SCRIPT,
            data_id: "sizing-data",
            data,
        }),
    };
    page.render()
}

fn grid_data(grid: &SizingGrid) -> Value {
    let points = grid.choices().iter().map(|choice| {
        json!({
            "period_ns": choice.period.as_nanos(),
            "budget_ns": choice.budget.map(Duration::as_nanos),
            "least": percent(choice, choice.budget),
            "with_margin": percent(choice, choice.with_margin),
            "on_front": choice.on_front,
            "chosen": grid.is_chosen(choice),
        })
    });
    json!({ "name": grid.name, "points": points.collect::<Vec<_>>() })
}

fn section((index, grid): (usize, &SizingGrid)) -> String {
    let infeasible = grid.sizing.iter().flat_map(|one| &one.infeasible);
    let infeasible = infeasible.map(ToString::to_string);
    let objections: String = infeasible
        .chain(grid.objections.iter().cloned())
        .map(|objection| format!("<li><b>{}</b></li>", escaped(&objection)))
        .collect();
    let objections = match objections.as_str() {
        "" => String::new(),
        items => format!("<ul class=\"warnings\">{items}</ul>"),
    };
    let stanza = grid.stanza.as_ref().map_or(String::new(), |stanza| {
        format!(
            "<h3>To paste</h3><pre class=\"commands\" tabindex=\"0\">{}</pre>",
            escaped(stanza)
        )
    });
    let assumptions = grid.sizing.iter().flat_map(|one| &one.assumptions);
    let assumptions: String = assumptions
        .map(|assumption| format!("<li>{}</li>", escaped(assumption)))
        .collect();
    let evidence = match grid.sizing.as_ref().map(|one| one.evidence) {
        None => "",
        Some(Evidence::Bound) => " Proved: a bound.",
        Some(Evidence::Band) => " By simulated runs of a calibrated host: a band.",
        Some(_) => " Not proved: an estimate.",
    };
    format!(
        "<section><h2>{name}</h2><p class=\"note\">{rule}{evidence}</p>{objections}{figure}{stanza}\
         <details><summary>Taken for granted</summary><ul>{assumptions}</ul></details>\
         {table}</section>\n",
        name = escaped(&grid.name),
        rule = escaped(&grid.rule),
        figure = figure(index, grid),
        table = table_markup(&table(grid)),
    )
}

fn figure(index: usize, grid: &SizingGrid) -> String {
    let Some(sizing) = grid.sizing.as_ref().filter(|one| !one.choices.is_empty()) else {
        return String::new();
    };
    let entry = |class: &str, label: &str| {
        format!(
            "<li><button type=\"button\" tabindex=\"-1\"><span class=\"swatch {class}\" \
             aria-hidden=\"true\"></span><span class=\"name\">{label}</span><output></output>\
             </button></li>"
        )
    };
    let margin = format!("with the margin of {} points", sizing.margin.0);
    format!(
        "<figure class=\"plot\" data-grid=\"{index}\"><p class=\"axis-title\">Bandwidth by period; \
         shaded: too little for what is promised</p>\
         <div class=\"canvas\" role=\"img\" aria-label=\"Bandwidth by period; the table below has \
         every number\"></div>\
         <noscript><p class=\"note\">The plot needs scripts; the table below has every number.</p>\
         </noscript><ul class=\"legend\">{}{}{}{}</ul><figcaption><p class=\"hint\"></p>\
         </figcaption></figure>",
        entry("band v0", "least bandwidth"),
        entry("dashed v2", &escaped(&margin)),
        entry(
            "solid v1",
            "front: nothing needs less and has a longer period"
        ),
        entry("solid v3", "chosen"),
    )
}

fn table(grid: &SizingGrid) -> Table {
    let time = |time: Option<Duration>| time.map_or_else(|| UNKNOWN.into(), exactly);
    let by_runs = grid.choices().iter().any(|choice| choice.kept.is_some());
    let rows = grid.choices().iter().map(|choice| {
        let share = percent(choice, choice.budget).map_or_else(
            || "none will do".into(),
            |percent| format!("{percent:.2} %"),
        );
        let mark = match (grid.is_chosen(choice), choice.on_front) {
            (true, _) => "front, chosen",
            (false, true) => "front",
            (false, false) => "",
        };
        let kept = choice
            .kept
            .map_or_else(|| UNKNOWN.into(), |kept| format!("{:.1} %", kept * 100.0));
        let mut cells = vec![
            exactly(choice.period),
            time(choice.budget),
            share,
            time(choice.with_margin),
            exactly(choice.resolution),
        ];
        cells.extend(by_runs.then_some(kept));
        cells.push(mark.into());
        cells.into_iter().map(Cell::text).collect()
    });
    let mut numbers = vec!["Least budget", "Bandwidth", "With margin", "Resolution"];
    numbers.extend(by_runs.then_some("Kept in"));
    Table {
        id: "",
        title: "Every period",
        note: String::new(),
        columns: [columns(&["Period"], &numbers), columns(&["Choice"], &[])].concat(),
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_model::PercentagePoints;

    use super::*;

    fn page(name: &str) -> SizingPage {
        let ms = Duration::from_millis;
        let choice = |period_ms, budget_ms: Option<u64>, on_front| Choice {
            period: ms(period_ms),
            budget: budget_ms.map(ms),
            with_margin: budget_ms.map(|budget_ms| ms(budget_ms + 1)),
            resolution: Duration::from_micros(10),
            on_front,
            kept: None,
        };
        let sizing = Sizing {
            choices: vec![choice(10, Some(6), true), choice(20, None, false)],
            best: Some(0),
            open: Vec::new(),
            infeasible: Vec::new(),
            margin: PercentagePoints(5.0),
            evidence: Evidence::Estimate,
            assumptions: Vec::new(),
            cap_assumptions: Vec::new(),
        };
        SizingPage {
            title: name.into(),
            tailbound_version: "0".into(),
            grids: vec![SizingGrid {
                name: name.into(),
                sizing: Some(sizing),
                stanza: Some("budget = \"6ms\"".into()),
                ..SizingGrid::default()
            }],
        }
    }

    #[test]
    fn every_period_is_there_and_nothing_is_loaded() {
        let html = render_sizing_html(&page("queue"));
        assert!(html.contains("60.00 %") && html.contains("none will do"));
        assert!(html.contains("budget = &quot;6ms&quot;"));
        let chart = include_str!("../../assets/uPlot.iife.min.js");
        let ours = html.replace(chart, "").replace(SIZING_SCRIPT, "");
        assert!(!ours.contains("http://") && !ours.contains("https://"));
        assert!(!ours.contains(" src="));
    }

    #[test]
    fn names_never_become_markup() {
        let html = render_sizing_html(&page("</script><script>alert(1)</script>"));
        assert!(!html.contains("<script>alert"));
    }

    #[test]
    fn a_period_of_zero_is_no_reason_to_panic() {
        let mut empty = page("zero");
        let sizing = empty.grids[0].sizing.as_mut().unwrap();
        sizing.choices[1].period = Duration::ZERO;
        assert!(render_sizing_html(&empty).contains("none will do"));
    }
}
