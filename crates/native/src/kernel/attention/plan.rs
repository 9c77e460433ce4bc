//! Who meets which page: worked out once a step, used by every layer and head.

use std::ops::Range;

use super::PAGE;
use super::tables::Tables;

/// Pages in a segment. Short ones balance better over threads, long ones have fewer answers to merge.
pub(super) const SEGMENT: usize = 16;
/// Most rows of one part. More would share pages better, fewer balance better.
const PART_ROWS: usize = 32;
/// Queries that are answered together: their scores should stay in the first cache.
const BLOCK_QUERIES: usize = 24;
/// Most rows of a block.
pub(super) const BLOCK_ROWS: usize = BLOCK_QUERIES;
/// Most runs of a part with more than one row: branches that go their own ways are work enough for many threads.
pub(super) const PART_RUNS: usize = 64;
// So that it is the most for a single row too.
const _: () = assert!(SEGMENT <= PART_RUNS);

/// One row's view of the past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub row: usize,
    /// Its page table, among the step's.
    pub table: usize,
    /// The first token that it sees: with a sliding window, not that of the sequence.
    pub first: usize,
    /// The end of those that it sees, itself included.
    pub len: usize,
}

impl View {
    /// Does the page at this index of its table hold anything of its past?
    fn reaches(&self, level: usize) -> bool {
        self.len > level * PAGE
    }

    /// And anything that it sees?
    fn sees(&self, level: usize) -> bool {
        self.reaches(level) && self.first < (level + 1) * PAGE
    }

    /// The segments that it sees something of.
    fn segments(&self) -> Range<usize> {
        self.first / (PAGE * SEGMENT)..self.len.div_ceil(PAGE * SEGMENT)
    }

    /// Which of a segment's tokens it sees.
    pub(super) fn seen(&self, segment: usize) -> Range<usize> {
        let within = |token: usize| token.saturating_sub(segment * SEGMENT * PAGE).min(SEGMENT * PAGE);
        within(self.first)..within(self.len)
    }
}

/// Neighbouring views and the segment that they are to be answered for: what a thread does at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    first_view: usize,
    views: usize,
    pub segment: usize,
    first_block: usize,
    blocks: usize,
    /// Answers before this part's, of one head each.
    pub first_answer: usize,
}

/// Some of a part's views, which are answered together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    first_view: usize,
    views: usize,
    first_run: usize,
    runs: usize,
}

/// Views of a block, counted from its first, that see the same page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    pub first: usize,
    pub count: usize,
    /// Which page of the segment.
    pub level: usize,
    pub page: u32,
}

impl Run {
    /// Is `next` the next page of the same views?
    pub fn goes_on_as(&self, next: &Run) -> bool {
        (next.first, next.count, next.level) == (self.first, self.count, self.level + 1)
    }
}

/// Where the answer to a view is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answered {
    /// Answers before its part's, of one head each.
    before: usize,
    /// Views of its part.
    views: usize,
    /// Which of them it is.
    view: usize,
}

impl Answered {
    /// Its place among all answers: those of a part lie head by head.
    #[inline(always)]
    pub fn place(&self, head: usize, heads: usize) -> usize {
        self.before * heads + head * self.views + self.view
    }
}

/// A step's attention. Its memory is kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    views: Vec<View>,
    pub(super) parts: Vec<Part>,
    blocks: Vec<Block>,
    runs: Vec<Run>,
    /// Most views of a block.
    block_rows: usize,
    /// Where each row's view is.
    places: Vec<usize>,
    /// Segments that somebody sees.
    segments: usize,
    /// For each view and each segment.
    answered: Vec<Answered>,
    /// The pages that are seen.
    pages: Vec<u32>,
    /// Which pages are among them.
    known: Vec<bool>,
    /// The runs of the part that is being added.
    of_part: Vec<Run>,
}

impl Plan {
    /// For rows from 0 on, one view each, with so many queries a head.
    pub fn work_out(&mut self, tables: &Tables, views: impl Iterator<Item = View>, queries: usize) {
        self.parts.clear();
        self.blocks.clear();
        self.runs.clear();
        self.block_rows = (BLOCK_QUERIES / queries).max(1);
        let mut sorted = std::mem::take(&mut self.views);
        sorted.clear();
        sorted.extend(views);
        let pages = |view: &View| tables.pages(view.table);
        // Branches of one trunk become neighbours.
        sorted.sort_unstable_by(|a, b| pages(a).cmp(pages(b)).then((a.len, a.row).cmp(&(b.len, b.row))));
        self.places.resize(sorted.len(), 0);
        for (place, view) in sorted.iter().enumerate() {
            self.places[view.row] = place;
        }
        let segments = |views: &[View]| {
            let first = views.iter().map(|v| v.segments().start).min().unwrap_or(0);
            first..views.iter().map(|v| v.segments().end).max().unwrap_or(0)
        };
        self.segments = segments(&sorted).end;
        self.answered.clear();
        self.answered.resize(self.segments * sorted.len(), Answered::default());
        for (group, members) in sorted.chunks(PART_ROWS).enumerate() {
            for segment in segments(members) {
                self.add_parts(tables, members, group * PART_ROWS, segment);
            }
        }
        self.views = sorted;
        self.find_pages();
    }

    /// Adds a part for neighbouring views, or several where one would be too much work.
    fn add_parts(&mut self, tables: &Tables, views: &[View], first_view: usize, segment: usize) {
        self.of_part.clear();
        add_runs(tables, views, 0, segment * SEGMENT, 0, &mut self.of_part);
        if self.of_part.len() > PART_RUNS && views.len() > 1 {
            let (left, right) = views.split_at(views.len() / 2);
            self.add_parts(tables, left, first_view, segment);
            self.add_parts(tables, right, first_view + left.len(), segment);
            return;
        }
        let (first_answer, first_block) = (self.answers(), self.blocks.len());
        for view in 0..views.len() {
            self.answered[(first_view + view) * self.segments + segment] =
                Answered { before: first_answer, views: views.len(), view };
        }
        for first in (0..views.len()).step_by(self.block_rows) {
            self.add_block(first..views.len().min(first + self.block_rows));
        }
        let blocks = self.blocks.len() - first_block;
        self.parts.push(Part { first_view, views: views.len(), segment, first_block, blocks, first_answer });
    }

    /// Adds a block with its share of the part's runs.
    fn add_block(&mut self, views: Range<usize>) {
        let first_run = self.runs.len();
        for run in &self.of_part {
            let (first, end) = (run.first.max(views.start), (run.first + run.count).min(views.end));
            if first < end {
                self.runs.push(Run { first: first - views.start, count: end - first, ..*run });
            }
        }
        let runs = self.runs.len() - first_run;
        self.blocks.push(Block { first_view: views.start, views: views.len(), first_run, runs });
    }

    fn find_pages(&mut self) {
        let most = self.runs.iter().map(|run| run.page as usize + 1).max().unwrap_or(0);
        self.known.clear();
        self.known.resize(most, false);
        self.pages.clear();
        for run in &self.runs {
            if !std::mem::replace(&mut self.known[run.page as usize], true) {
                self.pages.push(run.page);
            }
        }
    }

    /// The pages that are seen, each once, in the order in which they are first looked at.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Answers of all parts, for one head.
    pub(super) fn answers(&self) -> usize {
        self.parts.last().map_or(0, |part| part.first_answer + part.views)
    }

    pub(super) fn views(&self, part: &Part) -> &[View] {
        &self.views[part.first_view..][..part.views]
    }

    /// The views of a block.
    pub(super) fn views_of(&self, part: &Part, block: &Block) -> &[View] {
        &self.views(part)[block.first_view..][..block.views]
    }

    /// The blocks of a part.
    pub(super) fn blocks(&self, part: &Part) -> &[Block] {
        &self.blocks[part.first_block..][..part.blocks]
    }

    /// The runs of a block, from trunk to branches.
    pub(super) fn runs(&self, block: &Block) -> &[Run] {
        &self.runs[block.first_run..][..block.runs]
    }

    /// Who answers a row, in the order of the segments.
    pub(super) fn answers_of(&self, row: usize) -> &[Answered] {
        let place = self.places[row];
        &self.answered[place * self.segments..][self.views[place].segments()]
    }
}

/// Adds the runs of neighbouring views from a level of the segment on. Each run is followed by those of its own views a
/// level deeper: as long as nobody leaves, that is the next page of the same views. A page that only some of a run's views
/// see is answered for all, and counts for nothing with the others.
fn add_runs(
    tables: &Tables,
    views: &[View],
    first: usize,
    first_level: usize,
    level: usize,
    runs: &mut Vec<Run>,
) {
    if level == SEGMENT {
        return;
    }
    let index = first_level + level;
    let mut at = 0;
    while at < views.len() {
        if !views[at].reaches(index) {
            at += 1;
            continue;
        }
        let page_of = |view: &View| tables.pages(view.table)[index];
        let page = page_of(&views[at]);
        let same = |v: &&View| v.reaches(index) && page_of(v) == page;
        let count = views[at..].iter().take_while(same).count();
        if views[at..][..count].iter().any(|v| v.sees(index)) {
            runs.push(Run { first: first + at, count, level, page });
        }
        add_runs(tables, &views[at..][..count], first + at, first_level, level + 1, runs);
        at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_once_and_only_if_seen() {
        let mut tables = Tables::default();
        let [long, short, other] = [&[5, 9, 2, 7][..], &[5, 9, 3], &[8]].map(|pages| tables.add(pages));
        let view = |row, table, first, len| View { row, table, first, len };
        let views = [view(0, long, 0, 50), view(1, short, 0, 40), view(2, other, 0, 1), view(3, long, 0, 20)];
        let mut plan = Plan::default();
        plan.work_out(&tables, views.into_iter(), 3);
        let mut pages = plan.pages().to_vec();
        pages.sort_unstable();
        assert_eq!(pages, [2, 3, 5, 7, 8, 9]);
        // With a window, the first two are behind it.
        plan.work_out(&tables, [view(0, long, 33, 50)].into_iter(), 3);
        assert_eq!(plan.pages(), [2, 7]);
    }
}
