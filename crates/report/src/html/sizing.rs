//! What sizing found, as one page that needs nothing but a browser: every period that was looked at
//! against the bandwidth that it needs.

use serde_json::{Value, json};
use tailbound_time::Duration;

use super::escape::{escaped, escaped_json};
use super::{CHART_SCRIPT, head};
use crate::palette::Theme;
use crate::wording::exactly;

const SIZING_SCRIPT: &str = include_str!("../../assets/sizing.js");

/// A page of grids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizingPage {
    /// What was sized: the name of a description, or a queue in words.
    pub title: String,
    /// The version that found it.
    pub tailbound_version: String,
    /// One per service and mode.
    pub grids: Vec<SizingGrid>,
}

/// The periods that were looked at for one service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizingGrid {
    /// The service, with its mode if there are modes.
    pub name: String,
    /// How the budgets were found, and of which periods.
    pub rule: String,
    /// What is added to every bandwidth, in percentage points.
    pub margin_points: f64,
    /// The periods, ascending.
    pub points: Vec<SizingPoint>,
    /// Why there is no answer, or what stands against the choice.
    pub objections: Vec<String>,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
    /// The reservation of the choice, as TOML.
    pub stanza: Option<String>,
}

/// One period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SizingPoint {
    /// The period.
    pub period: Duration,
    /// The least budget; `None` where no budget will do.
    pub budget: Option<Duration>,
    /// The same with the margin.
    pub with_margin: Option<Duration>,
    /// How much less may be enough.
    pub resolution: Duration,
    /// Whether nothing beats it in both bandwidth and length of the period.
    pub on_front: bool,
    /// Whether it is the choice.
    pub chosen: bool,
}

impl SizingPoint {
    /// A budget as percent of the period.
    fn percent(&self, budget: Option<Duration>) -> Option<f64> {
        let budget = budget?.as_nanos() as f64;
        Some(100.0 * budget / self.period.as_nanos().max(1) as f64)
    }
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
    let sections: String = page.grids.iter().enumerate().map(section).collect();
    let head = head(
        &page.title,
        &page.tailbound_version,
        &[CHART_SCRIPT, SIZING_SCRIPT],
    );
    format!(
        "{head}<header class=\"page\"><p class=\"brand\">Tailbound</p><h1>{title}</h1>\
         <p class=\"facts\"><span>reservations by period and bandwidth</span></p></header>\n\
         <main>\n{sections}</main>\n<footer><p>Made by Tailbound {version}. Plots by uPlot (MIT). \
         This page is complete: it loads nothing from anywhere.</p></footer>\n\
         <script type=\"application/json\" id=\"sizing-data\">{data}</script>\n\
         <script>{CHART_SCRIPT}</script>\n<script>{SIZING_SCRIPT}</script>\n</body>\n</html>\n",
        version = escaped(&page.tailbound_version),
        title = escaped(&page.title),
        data = escaped_json(&data.to_string()),
    )
}

fn grid_data(grid: &SizingGrid) -> Value {
    let points = grid.points.iter().map(|point| {
        json!({
            "period_ns": point.period.as_nanos(),
            "budget_ns": point.budget.map(Duration::as_nanos),
            "least": point.percent(point.budget),
            "with_margin": point.percent(point.with_margin),
            "on_front": point.on_front,
            "chosen": point.chosen,
        })
    });
    json!({ "name": grid.name, "points": points.collect::<Vec<_>>() })
}

fn section((index, grid): (usize, &SizingGrid)) -> String {
    let objections: String = grid
        .objections
        .iter()
        .map(|objection| format!("<li><b>{}</b></li>", escaped(objection)))
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
    let assumptions: String = grid
        .assumptions
        .iter()
        .map(|assumption| format!("<li>{}</li>", escaped(assumption)))
        .collect();
    format!(
        "<section><h2>{name}</h2><p class=\"note\">{rule}</p>{objections}{figure}{stanza}\
         <details><summary>Taken for granted</summary><ul>{assumptions}</ul></details>\
         {table}</section>\n",
        name = escaped(&grid.name),
        rule = escaped(&grid.rule),
        figure = figure(index, grid),
        table = table(grid),
    )
}

fn figure(index: usize, grid: &SizingGrid) -> String {
    if grid.points.is_empty() {
        return String::new();
    }
    let entry = |class: &str, label: &str| {
        format!(
            "<li><button type=\"button\" tabindex=\"-1\"><span class=\"swatch {class}\" \
             aria-hidden=\"true\"></span><span class=\"name\">{label}</span><output></output>\
             </button></li>"
        )
    };
    let margin = format!("with the margin of {} points", grid.margin_points);
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

fn table(grid: &SizingGrid) -> String {
    let rows: String = grid
        .points
        .iter()
        .map(|point| {
            let time = |time: Option<Duration>| time.map_or("\u{2014}".into(), exactly);
            let share = point
                .percent(point.budget)
                .map_or("none will do".into(), |percent| format!("{percent:.2} %"));
            let mark = match (point.chosen, point.on_front) {
                (true, _) => "front, chosen",
                (false, true) => "front",
                (false, false) => "",
            };
            format!(
                "<tr class=\"group\"><th scope=\"row\">{}</th><td class=\"n\">{}</td>\
                 <td class=\"n\">{share}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td>{mark}</td></tr>",
                exactly(point.period),
                time(point.budget),
                time(point.with_margin),
                exactly(point.resolution),
            )
        })
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Every period\"><table>\
         <thead><tr><th scope=\"col\">Period</th><th scope=\"col\" class=\"n\">Least budget</th>\
         <th scope=\"col\" class=\"n\">Bandwidth</th><th scope=\"col\" class=\"n\">With margin</th>\
         <th scope=\"col\" class=\"n\">Resolution</th><th scope=\"col\">Choice</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> SizingPage {
        let ms = Duration::from_millis;
        let point = |period_ms, budget_ms: Option<u64>, chosen| SizingPoint {
            period: ms(period_ms),
            budget: budget_ms.map(ms),
            with_margin: budget_ms.map(|budget_ms| ms(budget_ms + 1)),
            resolution: Duration::from_micros(10),
            on_front: chosen,
            chosen,
        };
        SizingPage {
            title: name.into(),
            tailbound_version: "0".into(),
            grids: vec![SizingGrid {
                name: name.into(),
                points: vec![point(10, Some(6), true), point(20, None, false)],
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
        let ours = html.replace(CHART_SCRIPT, "").replace(SIZING_SCRIPT, "");
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
        empty.grids[0].points.push(SizingPoint::default());
        assert!(render_sizing_html(&empty).contains("none will do"));
    }
}
