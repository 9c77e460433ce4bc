//! A drawn picture, inside a page or by itself.
//!
//! Drawings name their colours as the page's style sheet does, and inside a page they need no more: they follow it from light
//! to dark. By itself a picture brings the colours along as plain values, which whatever shows SVG understands. For those
//! that know of dark screens there are rules on top, and the legend, which is the page's business elsewhere, is drawn below.

use std::fmt::Write;

use crate::report::format::{escape, shown};

/// In units of the picture. Coordinates are whole numbers, so they are finer than pixels.
pub const WIDTH: u32 = 960;
pub const TEXT: f64 = 42.0;
pub const SMALL: f64 = 38.0;

/// Colours, by their names in the style sheet, and what they stand for.
pub type Legend = Vec<(&'static str, String)>;

#[derive(Debug, Clone, Default)]
pub struct Picture {
    pub height: u32,
    /// What it shows, in words.
    pub alt: String,
    /// The elements; none where it could not be laid out.
    pub drawing: String,
}

impl Picture {
    pub fn is_empty(&self) -> bool {
        self.drawing.is_empty()
    }

    /// For a page with our style sheet.
    pub fn inside(&self) -> String {
        let Picture { height, alt, drawing } = self;
        let head = format!("viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\"", escape(alt));
        format!("<svg {head} xmlns=\"http://www.w3.org/2000/svg\">{drawing}</svg>")
    }

    /// For a file.
    pub fn alone(&self, legend: &Legend) -> String {
        let (below, height) = self.legend(legend);
        let mut body = format!(
            "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"var(--paper)\"/>{}{below}",
            self.drawing
        );
        body = body.replace("currentColor", "var(--ink)");
        let mut dark = String::new();
        for Colour { name, light, dark: darker } in colours() {
            let named = format!("var({name})");
            if body.contains(&named) {
                body = body.replace(&named, light);
                for part in ["fill", "stroke"] {
                    let _ = write!(dark, " [{part}=\"{light}\"] {{ {part}: {darker}; }}");
                }
            }
        }
        let alt = escape(&self.alt);
        // At half its units it is as large as in the page.
        let (half_width, half_height) = (WIDTH / 2, height / 2);
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{half_width}\" height=\"{half_height}\" role=\"img\" aria-label=\"{alt}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n<style>@media (prefers-color-scheme: dark) {{{dark} }}</style>\n{body}</svg>\n"
        )
    }

    /// The legend as rows below the drawing, and how high both are together.
    fn legend(&self, legend: &Legend) -> (String, u32) {
        const ROW: u32 = 54;
        const SWATCH: u32 = 28;
        const LEFT: u32 = 20;
        // As large as plotters makes the numbers along an axis.
        let size = SMALL / 1.24;
        // Fonts differ from one machine to the next; this is wide enough for most.
        let reach = |name: &str| SWATCH + 14 + 17 * name.chars().count() as u32;
        let mut out = String::new();
        let (mut x, mut y) = (LEFT, self.height);
        for (colour, name) in legend {
            if x > LEFT && x + reach(name) > WIDTH {
                (x, y) = (LEFT, y + ROW);
            }
            let _ = write!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"{SWATCH}\" height=\"{SWATCH}\" rx=\"4\" fill=\"var({colour})\"/>\n\
                 <text x=\"{}\" y=\"{}\" font-family=\"sans-serif\" font-size=\"{size:.1}\" fill=\"currentColor\">{}</text>\n",
                y + 10,
                x + SWATCH + 14,
                y + 8 + SWATCH,
                escape(&name.chars().map(shown).collect::<String>())
            );
            x += reach(name) + 36;
        }
        (out, if legend.is_empty() { self.height } else { y + ROW + 10 })
    }
}

struct Colour {
    name: &'static str,
    light: &'static str,
    dark: &'static str,
}

/// The colours of the style sheet, which begins with them: first for light pages, then for dark ones.
fn colours() -> impl Iterator<Item = Colour> {
    const STYLE: &str = include_str!("assets/report.css");
    let top = STYLE.split("\n* {").next().unwrap_or_default();
    let (light, dark) = top.split_once("@media").unwrap_or((top, ""));
    let declared = |block: &'static str| {
        let pair =
            |text: &'static str| text.trim().split_once(": ").filter(|(name, _)| name.starts_with("--"));
        block.split([';', '{', '}']).filter_map(pair)
    };
    declared(light).map(move |(name, light)| {
        let darker = declared(dark).find(|(known, _)| *known == name).map_or(light, |(_, value)| value);
        Colour { name, light, dark: darker }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_itself_a_picture_brings_its_colours_along() {
        let drawing =
            "<rect fill=\"var(--init)\"/><line stroke=\"currentColor\"/><line stroke=\"var(--grid)\"/>";
        let picture = Picture { height: 100, alt: "a \"b\"".to_owned(), drawing: drawing.to_owned() };
        let alone = picture.alone(&vec![("--esc", "ESC & co".to_owned()), ("--init", "x".repeat(50))]);
        roxmltree::Document::parse(&alone).unwrap();
        assert!(!alone.contains("var(") && !alone.contains("currentColor"), "{alone}");
        for part in ["#dba94a", "[fill=\"#dba94a\"] { fill: #f3d08f; }", "ESC &amp; co", "a &quot;b&quot;"] {
            assert!(alone.contains(part), "{part}: {alone}");
        }
        // The second name has no room beside the first.
        assert!(alone.contains("viewBox=\"0 0 960 218\""), "{alone}");
    }

    #[test]
    fn no_two_colours_are_one() {
        let mut values: Vec<&str> = colours().map(|colour| colour.light).collect();
        assert!(values.len() > 10 && values.iter().all(|value| value.starts_with('#')), "{values:?}");
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), colours().count());
        assert!(colours().all(|colour| colour.light != colour.dark));
    }
}
