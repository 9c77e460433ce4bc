//! The look of all tables.

use comfy_table::{CellAlignment, Table, presets};

/// A table with lines between its rows: names on the left, figures aligned on the right.
pub fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
