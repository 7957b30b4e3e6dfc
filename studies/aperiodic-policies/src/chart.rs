//! Curves over a parameter, as SVG.

use std::fmt::Write as _;

use crate::curves::Curve;
use crate::figures::Figure;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 60.0;
const FIELD: f64 = 320.0;
const HEIGHT: f64 = TOP + FIELD + 60.0;

/// Okabe and Ito's colours, which people with any kind of colour blindness tell apart, in the order of
/// the policies in figures.
const COLOURS: [&str; 8] = [
    "#5b6470", "#b98500", "#d55e00", "#b5578e", "#0072b2", "#3f9bd1", "#009e73", "#1b1f24",
];

/// How coordinates map onto the picture.
struct Frame {
    values: Vec<u32>,
    low: f64,
    high: f64,
    step: f64,
}

impl Frame {
    fn of(curves: &[Curve]) -> Self {
        let points = curves.iter().flat_map(|curve| &curve.points);
        let mut values: Vec<u32> = points.clone().map(|(value, _)| *value).collect();
        values.sort_unstable();
        values.dedup();
        let ratios = points.map(|(_, ratio)| *ratio);
        let (least, most) = ratios.fold((1.0_f64, 1.0_f64), |(least, most), ratio| {
            (least.min(ratio), most.max(ratio))
        });
        let rough = ((most - least) / 6.0).max(0.005);
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        Self {
            values,
            low: (least / step).floor() * step,
            high: (most / step).ceil() * step,
            step,
        }
    }

    fn x(&self, value: u32) -> f64 {
        let first = f64::from(self.values.first().copied().unwrap_or(0));
        let last = f64::from(self.values.last().copied().unwrap_or(1));
        let share = (f64::from(value) - first) / (last - first).max(1.0);
        LEFT + 20.0 + share * (WIDTH - LEFT - RIGHT - 40.0)
    }

    fn y(&self, ratio: f64) -> f64 {
        let height = (ratio - self.low) / (self.high - self.low).max(self.step);
        TOP + FIELD * (1.0 - height)
    }
}

/// Appends to a picture.
pub fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(text);
}

/// Draws a figure. The labels are ours, so that nothing needs to be escaped.
pub fn render(figure: &Figure, curves: &[Curve]) -> String {
    let frame = Frame::of(curves);
    let mut out = String::new();
    let title = figure.title();
    put(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
             font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
             <title>{title}</title><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"15\" font-weight=\"bold\" fill=\"#1b1f24\">{title}\
             </text><text x=\"{LEFT}\" y=\"45\" fill=\"#5b6470\">{}</text>",
            figure.subtitle()
        ),
    );
    axes(&mut out, &frame, figure.parameter.label());
    for (place, curve) in curves.iter().enumerate() {
        draw(&mut out, &frame, place, curve);
    }
    out.push_str("</svg>\n");
    out
}

fn axes(out: &mut String, frame: &Frame, parameter: &str) {
    let right = WIDTH - RIGHT;
    let lines = ((frame.high - frame.low) / frame.step).round() as u32;
    let digits = usize::from(frame.step < 0.1) + 1 + usize::from(frame.step < 0.01);
    for line in 0..=lines {
        let ratio = frame.low + f64::from(line) * frame.step;
        let y = frame.y(ratio);
        put(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e8ebef\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#5b6470\">{ratio:.digits$}\
                 </text>",
                LEFT - 8.0,
                y + 4.0,
            ),
        );
    }
    let bottom = TOP + FIELD;
    for value in &frame.values {
        put(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#5b6470\">{value}</text>",
                frame.x(*value),
                bottom + 20.0,
            ),
        );
    }
    put(
        out,
        format_args!(
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"#aab3bf\"/>\
             <text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#5b6470\">{parameter}</text>",
            bottom + 42.0,
        ),
    );
}

fn draw(out: &mut String, frame: &Frame, place: usize, curve: &Curve) {
    let colour = COLOURS[place % COLOURS.len()];
    let mut path = String::new();
    for (index, (value, ratio)) in curve.points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let (x, y) = (frame.x(*value), frame.y(*ratio));
        put(&mut path, format_args!("{command}{x:.1} {y:.1}"));
        put(
            out,
            format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"),
        );
    }
    let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 14.0 + place as f64 * 22.0);
    put(
        out,
        format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>\
             <line x1=\"{x}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"3\"/><text x=\"{:.1}\" y=\"{y}\" fill=\"#1b1f24\">{}</text>",
            x + 22.0,
            y - 4.0,
            y - 4.0,
            x + 30.0,
            curve.policy.label(),
        ),
    );
}
