//! Simulated and measured ratios as SVG, one line per means.

use super::results::Overall;
use crate::chart::put;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 92.0;
const LINE: f64 = 34.0;

const SIMULATED: &str = "#8a94a0";
const WITH_OVERHEADS: &str = "#0072b2";
const MEASURED: &str = "#d55e00";

/// Draws it. The labels are ours, so that nothing needs to be escaped.
pub fn render(overall: &[Overall]) -> String {
    let drawn: Vec<&Overall> = overall.iter().filter(|one| one.mean.is_some()).collect();
    let bottom = TOP + LINE * drawn.len() as f64;
    let height = bottom + 46.0;
    let greatest = drawn.iter().filter_map(|one| one.measured_range);
    let greatest = greatest.map(|(_, most)| most).fold(1.0, f64::max);
    let tenths = (greatest * 10.0).ceil().max(1.0);
    let x = |ratio: f64| LEFT + (WIDTH - LEFT - RIGHT) * ratio * 10.0 / tenths;
    let mut out = String::new();
    head(&mut out, height);
    let apart = if tenths > 12.0 {
        (tenths / 10.0).ceil()
    } else {
        1.0
    };
    let mut tenth = 0.0;
    while tenth <= tenths {
        let (at, ratio) = (x(tenth / 10.0), tenth / 10.0);
        put(
            &mut out,
            format_args!(
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#e8ebef\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#5b6470\">{ratio:.1}</text>",
                bottom + 20.0
            ),
        );
        tenth += apart;
    }
    for (place, one) in drawn.into_iter().enumerate() {
        line(&mut out, one, TOP + LINE * (place as f64 + 0.5), x);
    }
    out.push_str("</svg>\n");
    out
}

fn head(out: &mut String, height: f64) {
    let title = "Soft jobs beside hard tasks, simulated and on the kernel";
    put(
        out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
             font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
             <title>{title}</title><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\
             <text x=\"20\" y=\"26\" font-size=\"15\" font-weight=\"bold\" fill=\"#1b1f24\">{title}</text>\
             <text x=\"20\" y=\"45\" fill=\"#5b6470\">mean response time relative to the background, mean \
             over sets; the line is from the least to the greatest measured</text>"
        ),
    );
    let marks = [
        (26.0, SIMULATED, "simulated"),
        (126.0, WITH_OVERHEADS, "simulated with overheads"),
        (326.0, MEASURED, "measured"),
    ];
    for (at, colour, label) in marks {
        put(
            out,
            format_args!(
                "<circle cx=\"{at}\" cy=\"66\" r=\"5\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"70\" fill=\"#1b1f24\">{label}</text>",
                at + 12.0
            ),
        );
    }
}

fn line(out: &mut String, one: &Overall, y: f64, x: impl Fn(f64) -> f64) {
    let (Some(mean), Some((least, greatest))) = (one.mean, one.measured_range) else {
        return;
    };
    put(
        out,
        format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#1b1f24\">{}</text>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{MEASURED}\" \
             stroke-width=\"2\"/>",
            LEFT - 12.0,
            y + 4.0,
            one.means.label(),
            x(least),
            x(greatest),
            y + 7.0,
            y + 7.0,
        ),
    );
    let dots = [
        (mean.simulated, -7.0, SIMULATED),
        (mean.with_overheads, 0.0, WITH_OVERHEADS),
        (mean.measured, 7.0, MEASURED),
    ];
    for (ratio, below, colour) in dots {
        put(
            out,
            format_args!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>",
                x(ratio),
                y + below
            ),
        );
    }
}
