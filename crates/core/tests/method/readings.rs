//! Which reading of the second pass fits the paper's own figures? Its complete table gives the sequences a prompt before and
//! after that pass. No reading allows more than its bound; this counts the cells above it, for each reading.

use crate::reference::Reading;

const M: usize = 32;
const FIGURES: &str = include_str!("../../../lab/src/report/paper.tsv");

/// A cell of the complete table that has both passes.
struct Cell {
    problems: usize,
    failing: usize,
    /// Mean numbers of sequences after EAGer-init and after full EAGer, to one decimal.
    before: f64,
    after: f64,
}

fn problems(suite: &str) -> usize {
    match suite {
        "gpqa-diamond" => 198,
        "humaneval-plus" => 164,
        _ => 30,
    }
}

fn cells() -> Vec<Cell> {
    let rows: Vec<Vec<&str>> = FIGURES.lines().map(|line| line.split('\t').collect()).collect();
    let of = |method: &'static str| rows.iter().filter(move |r| r[0] == "complete" && r[3] == method);
    let cell = |full: &Vec<&str>| {
        let init = of("eager-init").find(|r| (r[1], r[2], r[4]) == (full[1], full[2], full[4]))?;
        let number = |row: &[&str], column: usize| row[column].parse::<f64>().ok();
        let problems = problems(full[2]);
        let failing = (problems as f64 * (1.0 - number(init, 6)?)).round() as usize;
        Some(Cell { problems, failing, before: number(init, 10)?, after: number(full, 10)? })
    };
    of("eager").filter_map(cell).collect()
}

impl Cell {
    fn new_sequences(&self) -> f64 {
        (self.after - self.before) * self.problems as f64
    }

    /// Did it add more than a reading allows? A prompt that fails has one sequence at least. Both means are rounded.
    fn is_above(&self, reading: Reading) -> bool {
        let surplus = ((M as f64 - self.before) * self.problems as f64).round().max(0.0) as usize;
        let bound = self.failing * reading.beside(M, 1) + reading.budget(M, surplus, self.failing);
        self.new_sequences() > bound as f64 + 0.1 * self.problems as f64 + 1e-9
    }
}

#[test]
fn the_papers_figures_exclude_a_limit_over_all_prompts() {
    let cells = cells();
    assert_eq!(cells.len(), 97);
    let above = Reading::ALL.map(|reading| cells.iter().filter(|cell| cell.is_above(reading)).count());
    assert_eq!(above, [86, 37, 32, 6, 4, 0]);
}

/// Where the mean ends at exactly M, shares add up to the surplus and M + b_i is a prompt's total.
#[test]
fn the_mean_often_stops_at_m() {
    let cells = cells();
    let stops: Vec<f64> = cells.iter().filter(|c| c.after == M as f64).map(Cell::new_sequences).collect();
    assert_eq!(stops.len(), 22);
    assert_eq!(stops.iter().filter(|new| **new > 95.9).count(), 13);
    assert_eq!(cells.iter().filter(|c| c.after > M as f64).count(), 23);
}
