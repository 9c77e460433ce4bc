//! Pictures, by plotters, as SVG that takes its colours from the page.
//!
//! plotters knows fixed colours only. So every colour is drawn as a stand-in that occurs nowhere else, and the finished text
//! gets `currentColor` or a CSS variable in its place: one picture serves light and dark pages and print.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::format::shown;
use crate::report::picture::{Picture, SMALL, TEXT, WIDTH};
use crate::statistics::Interval;

const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(1, 1, 2);
/// The first of the stand-ins for the colours of series.
const SERIES: u8 = 16;

/// One end of a picture to the other.
#[derive(Debug, Clone)]
pub struct Axis {
    pub label: String,
    pub range: Range<f64>,
    pub ticks: Vec<f64>,
    pub form: Form,
}

/// How the numbers along an axis are written.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// With as many digits as it takes to tell one tick from the next.
    Plain,
    /// As this has it.
    Own(fn(f64) -> String),
}

impl Axis {
    /// An axis on round numbers that holds all values.
    pub fn over(label: &str, values: impl IntoIterator<Item = f64>, form: Form) -> Self {
        let finite = values.into_iter().filter(|v| v.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let spread = if high > low { high - low } else { high.abs().max(1.0) * 0.1 };
        let step = round_step(spread / 4.0);
        // A margin of its own, so that a mark at the edge is whole.
        let (first, last) = ((low / step - 0.25).floor() * step, (high / step + 0.25).ceil() * step);
        let count = ((last - first) / step).round() as usize;
        let ticks = (0..=count).map(|i| first + step * i as f64).collect();
        Axis { label: label.to_owned(), range: first..last, ticks, form }
    }

    /// From zero.
    pub fn from_zero(label: &str, values: impl IntoIterator<Item = f64>, form: Form) -> Self {
        let highest = values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let highest = if highest > 0.0 { highest * 1.04 } else { 1.0 };
        let step = round_step(highest / 4.0);
        let count = (highest / step).ceil() as usize;
        let ticks: Vec<f64> = (0..=count).map(|i| step * i as f64).collect();
        Axis { label: label.to_owned(), range: 0.0..step * count as f64, ticks, form }
    }

    /// From a little before zero, so that a mark at zero is whole.
    pub fn before_zero(label: &str, values: impl IntoIterator<Item = f64>, form: Form) -> Self {
        let mut axis = Axis::from_zero(label, values, form);
        axis.range.start = -0.04 * axis.range.end;
        axis
    }

    /// A share of one, whole.
    pub fn share(label: &str) -> Self {
        let ticks = (0..=5).map(|i| f64::from(i) / 5.0).collect();
        Axis { label: label.to_owned(), range: -0.04..1.08, ticks, form: Form::Plain }
    }

    /// Shares of one, as near as the values allow.
    pub fn share_over(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut axis = Axis::over(label, values, Form::Plain);
        axis.ticks.retain(|t| (-1e-9..=1.0 + 1e-9).contains(t));
        axis.range = axis.range.start.max(-0.02)..axis.range.end.min(1.02);
        axis
    }

    /// The same from zero, for bars.
    pub fn bar_share(label: &str) -> Self {
        let axis = Axis::share(label);
        Axis { range: 0.0..axis.range.end, ..axis }
    }

    /// Names at whole places.
    fn places(count: usize, name: fn(f64) -> String) -> Self {
        let ticks = (0..count).map(|i| i as f64 + 0.5).collect();
        Axis { label: String::new(), range: 0.0..count as f64, ticks, form: Form::Own(name) }
    }

    /// A tick in writing.
    fn written(&self, tick: f64) -> String {
        let (first, second) = match (self.form, &self.ticks[..]) {
            (Form::Own(form), _) => return form(tick),
            (Form::Plain, [first, second, ..]) => (first, second),
            (Form::Plain, _) => return tick.to_string(),
        };
        let power = |value: f64| (value.abs() * 1.000_001).log10().floor() as i32;
        let step = power(second - first);
        // Adding zero makes of -0 a plain 0.
        let tick = if power(tick) < step - 1 { 0.0 } else { tick } + 0.0;
        let largest = self.ticks.iter().copied().fold(0.0, |a: f64, b| a.max(b.abs()));
        match usize::try_from(-step) {
            // Beyond that, zeros are hard to count.
            Ok(5..) if power(largest) < -3 => {
                let digits = usize::try_from(power(largest) - step).unwrap_or(0);
                if tick == 0.0 { "0".to_owned() } else { format!("{tick:.digits$e}") }
            }
            Ok(digits) => format!("{tick:.digits$}"),
            Err(_) => format!("{tick:.0}"),
        }
    }
}

/// plotters would choose ticks of its own.
impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// 1, 2 or 5 times a power of ten, at least `wanted`.
fn round_step(wanted: f64) -> f64 {
    let power = 10f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|s| *s >= wanted * 0.999)
        .unwrap_or(power * 10.0)
}

/// A line with a mark at each point.
#[derive(Debug, Clone)]
pub struct Curve {
    pub colour: &'static str,
    pub points: Vec<Mark>,
    /// Joined by a line?
    pub joined: bool,
}

#[derive(Debug, Clone)]
pub struct Mark {
    pub x: f64,
    pub y: f64,
    /// Of `y`.
    pub interval: Option<Interval>,
    pub label: String,
}

/// Bars side by side under one name.
#[derive(Debug, Clone)]
pub struct Bars {
    pub name: String,
    pub bars: Vec<Bar>,
}

#[derive(Debug, Clone)]
pub struct Bar {
    pub colour: &'static str,
    pub value: f64,
    pub interval: Option<Interval>,
    pub label: String,
}

/// A column of two parts: all of it, and the solid part from below.
#[derive(Debug, Clone, Copy)]
pub struct Stack {
    pub whole: f64,
    pub solid: f64,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The colours in use, each with its stand-in.
#[derive(Default)]
struct Palette(Vec<&'static str>);

impl Palette {
    fn of(&mut self, name: &'static str) -> RGBColor {
        let at = self.0.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        });
        RGBColor(1, 2, SERIES + at as u8)
    }

    fn paint(&self, svg: &str) -> String {
        let mut svg = svg.replace("#010101", "currentColor").replace("#010102", "var(--grid)");
        for (at, name) in self.0.iter().enumerate() {
            svg = svg.replace(&format!("#0102{:02X}", SERIES + at as u8), &format!("var({name})"));
        }
        svg
    }
}

/// Draws a picture. `alt` says in words what it shows.
fn picture(height: u32, alt: &str, draw: impl FnOnce(&Area, &mut Palette) -> Drawn) -> Picture {
    let mut drawn = String::new();
    let mut palette = Palette::default();
    let result = {
        let area = SVGBackend::with_string(&mut drawn, (WIDTH, height)).into_drawing_area();
        draw(&area, &mut palette).and_then(|()| area.present())
    };
    // Writing to a text does not fail; a picture that cannot be laid out is left out rather than the report.
    if result.is_err() {
        return Picture::default();
    }
    // What plotters puts around the drawing is ours to say.
    let inside = drawn.split_once('>').map_or("", |(_, rest)| rest);
    let drawing = palette.paint(inside.trim_end().trim_end_matches("</svg>"));
    Picture { height, alt: alt.to_owned(), drawing }
}

fn font(size: f64) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

fn chart<'a, 'b>(
    area: &'a Area<'b>,
    x: &Axis,
    y: &Axis,
    x_names: Option<&[String]>,
) -> Result<Chart<'a, 'b>, DrawingAreaErrorKind<std::io::Error>> {
    let widest = y.ticks.iter().map(|t| y.written(*t).chars().count()).max().unwrap_or(1) as u32;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(52)
        .margin_top(28)
        .x_label_area_size(if x.label.is_empty() { 56 } else { 104 })
        .y_label_area_size(70 + 19 * widest)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let x_form = |v: &f64| match x_names {
        Some(names) => names.get(*v as usize).map(|n| plain(n)).unwrap_or_default(),
        None => x.written(*v),
    };
    let y_form = |v: &f64| y.written(*v);
    let mut mesh = chart.configure_mesh();
    if x_names.is_some() {
        mesh.disable_x_mesh();
    }
    mesh.axis_style(INK.stroke_width(2))
        .bold_line_style(GRID.stroke_width(2))
        .max_light_lines(0)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&x_form)
        .y_label_formatter(&y_form)
        .x_labels(x.ticks.len().max(2))
        .y_labels(y.ticks.len().max(2))
        .label_style(font(SMALL))
        .axis_desc_style(font(TEXT))
        .x_desc(x.label.clone())
        .y_desc(y.label.clone())
        .draw()?;
    Ok(chart)
}

/// Text without what no document may hold.
fn plain(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Curves over two numbers. `rules` are values of `y` to hold them against.
pub fn curves(x: &Axis, y: &Axis, curves: &[Curve], rules: &[(f64, &'static str)], alt: &str) -> Picture {
    picture(620, alt, |area, palette| {
        let mut chart = chart(area, x, y, None)?;
        for (value, colour) in rules {
            let colour = palette.of(colour);
            let span = [(x.range.start, *value), (x.range.end, *value)];
            chart.draw_series(DashedLineSeries::new(span, 14, 10, colour.stroke_width(4)))?;
        }
        for curve in curves {
            let colour = palette.of(curve.colour);
            if curve.joined {
                let path = curve.points.iter().map(|p| (p.x, p.y));
                chart.draw_series(LineSeries::new(path, colour.stroke_width(4)))?;
            }
            for mark in &curve.points {
                draw_interval(&mut chart, mark.x, mark.interval, &y.range, colour)?;
                chart.draw_series([Circle::new((mark.x, mark.y), 10, colour.filled())])?;
                let text = font(SMALL).pos(Pos::new(HPos::Center, VPos::Bottom));
                chart.draw_series([
                    EmptyElement::at((mark.x, mark.y)) + Text::new(plain(&mark.label), (0, -10), text)
                ])?;
            }
        }
        Ok(())
    })
}

/// Points, and nothing joined.
pub fn scatter(x: &Axis, y: &Axis, colour: &'static str, points: &[(f64, f64)], alt: &str) -> Picture {
    picture(620, alt, |area, palette| {
        let mut chart = chart(area, x, y, None)?;
        // Points that lie on each other show as darker.
        let colour = palette.of(colour).mix(0.6);
        chart.draw_series(points.iter().map(|&(x, y)| Circle::new((x, y), 11, colour.filled())))?;
        Ok(())
    })
}

/// Groups of bars.
pub fn bars(y: &Axis, groups: &[Bars], alt: &str) -> Picture {
    picture(540, alt, |area, palette| {
        let names: Vec<String> = groups.iter().map(|g| g.name.clone()).collect();
        let mut chart = chart(area, &Axis::places(groups.len(), |_| String::new()), y, Some(&names))?;
        let total: usize = groups.iter().map(|g| g.bars.len()).sum();
        for (place, group) in groups.iter().enumerate() {
            let width = 0.86 / group.bars.len().max(1) as f64;
            for (at, bar) in group.bars.iter().enumerate() {
                let left = place as f64 + 0.07 + width * at as f64;
                let colour = palette.of(bar.colour);
                let corners = [(left + width * 0.06, 0.0), (left + width * 0.94, bar.value)];
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                let middle = left + width / 2.0;
                draw_interval(&mut chart, middle, bar.interval, &y.range, INK)?;
                // Numbers over narrow bars would run into each other.
                if total <= 6 {
                    let text = font(SMALL).pos(Pos::new(HPos::Center, VPos::Bottom));
                    let top = bar.interval.map_or(bar.value, |i| i.high.max(bar.value)).min(y.range.end);
                    chart.draw_series([
                        EmptyElement::at((middle, top)) + Text::new(plain(&bar.label), (0, 0), text)
                    ])?;
                }
            }
        }
        Ok(())
    })
}

fn draw_interval(
    chart: &mut Chart,
    x: f64,
    interval: Option<Interval>,
    within: &Range<f64>,
    colour: RGBColor,
) -> Drawn {
    let Some(Interval { low, high, .. }) = interval else { return Ok(()) };
    let clamp = |v: f64| v.clamp(within.start, within.end);
    let (low, high) = (clamp(low), clamp(high));
    let ink = colour.mix(0.6).stroke_width(3);
    chart.draw_series([PathElement::new([(x, low), (x, high)], ink)])?;
    for end in [low, high] {
        chart.draw_series([EmptyElement::at((x, end)) + PathElement::new([(-6, 0), (6, 0)], ink)])?;
    }
    Ok(())
}

/// A column for each problem, in order.
pub fn columns(y: &Axis, colour: &'static str, stacks: &[Stack], alt: &str) -> Picture {
    picture(340, alt, |area, palette| {
        let mut x = Axis::places(stacks.len(), |v| format!("{}", (v + 0.5) as usize));
        x.label = "problem, by how often it was solved".to_owned();
        let every = (stacks.len() / 6).max(1);
        x.ticks = x.ticks.into_iter().step_by(every).collect();
        let mut chart = chart(area, &x, y, None)?;
        let solid = palette.of(colour);
        let gap = if stacks.len() > 120 { 0.0 } else { 0.08 };
        for (at, stack) in stacks.iter().enumerate() {
            let corners = |height: f64| [(at as f64 + gap, 0.0), (at as f64 + 1.0 - gap, height)];
            chart.draw_series([Rectangle::new(corners(stack.whole), solid.mix(0.35).filled())])?;
            chart.draw_series([Rectangle::new(corners(stack.solid), solid.filled())])?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values_on_round_numbers() {
        for (low, high) in [(0.0, 1.0), (0.93, 0.97), (1234.0, 56789.0), (5.0, 5.0), (-0.3, 0.2), (0.0, 0.0)]
        {
            let axis = Axis::over("x", [low, high], Form::Plain);
            assert!(axis.range.contains(&low) && axis.range.contains(&high), "{axis:?}");
            assert!((2..=9).contains(&axis.ticks.len()), "{axis:?}");
        }
        assert_eq!(Axis::from_zero("x", [3.9], Form::Plain).ticks, [0.0, 2.0, 4.0, 6.0]);
        let empty = Axis::over("x", [f64::NAN], Form::Plain);
        assert!(empty.range.start < empty.range.end && empty.range.end.is_finite(), "{empty:?}");
    }

    #[test]
    fn ticks_have_the_digits_that_tell_them_apart() {
        for (first, step, written) in [
            (0.0, 1.0, ["0", "1", "2", "3"]),
            (0.0, 0.5, ["0.0", "0.5", "1.0", "1.5"]),
            (0.0, 0.002, ["0.000", "0.002", "0.004", "0.006"]),
            (-0.0004, 0.0002, ["-0.0004", "-0.0002", "0.0000", "0.0002"]),
            (0.965, 0.005, ["0.965", "0.970", "0.975", "0.980"]),
            (1000.0, 500.0, ["1000", "1500", "2000", "2500"]),
            // Where zeros are hard to count.
            (0.0, 2e-6, ["0", "2e-6", "4e-6", "6e-6"]),
            (0.000_08, 1e-5, ["8.0e-5", "9.0e-5", "1.0e-4", "1.1e-4"]),
        ] {
            let ticks: Vec<f64> = (0..4).map(|i| first + step * f64::from(i)).collect();
            let axis = Axis { ticks, ..Axis::over("x", [0.0, 1.0], Form::Plain) };
            let found: Vec<String> = axis.ticks.iter().map(|&tick| axis.written(tick)).collect();
            assert_eq!(found, written);
        }
        let tiny = Axis::before_zero("x", [0.003, 0.011], Form::Plain);
        let written: Vec<String> = tiny.ticks.iter().map(|&tick| tiny.written(tick)).collect();
        assert_eq!(written, ["0.000", "0.005", "0.010", "0.015"]);
    }

    #[test]
    fn pictures_take_their_colours_from_the_page() {
        let bar = Bar { colour: "--init", value: 0.5, interval: None, label: "a<b\u{1}".into() };
        let svg =
            bars(&Axis::share("pass@k"), &[Bars { name: "x & y".into(), bars: vec![bar] }], "a \"picture\"")
                .inside();
        assert!(svg.contains("var(--init)") && svg.contains("currentColor") && svg.contains("var(--grid)"));
        assert!(!svg.contains("#01"), "a stand-in was left");
        assert!(
            svg.contains("a&lt;b\u{FFFD}")
                && svg.contains("x &amp; y")
                && svg.contains("a &quot;picture&quot;")
        );
        assert!(svg.ends_with("</svg>"));
    }
}
