//! What was measured: rows of times taken in turn and of counts, and what follows from them. It is what the file
//! beside the build holds; the table and the budgets are made of nothing else.

use serde::Serialize;

/// One run.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    pub machine: Machine,
    pub rows: Vec<Row>,
}

/// Where it was measured, in words.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    pub kernel: String,
    pub processor: String,
    pub cores: usize,
    pub processes: usize,
    /// Work that waited for a processor when the run began and ended: other work makes times untrue.
    pub load: Vec<f64>,
    pub wall_seconds: f64,
}

/// One thing that was done again and again. Rows of a group were done in turn, round by round.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Row {
    pub group: String,
    pub name: String,
    /// The row of the group that its times are held against.
    pub beside: Option<String>,
    /// Milliseconds of each round: on the clock, and of all processors for the programs that it started.
    pub times: Vec<f64>,
    pub work: Vec<f64>,
    pub counts: Option<Counts>,
    /// Requests to the cloud, logins among them, for all that the row does once.
    pub requests: Option<u64>,
    pub logins: Option<u64>,
    pub bytes: Option<u64>,
    /// Why there is nothing.
    pub not_here: Option<String>,
}

/// What a call takes and does, which is the same each time.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Counts {
    pub system_calls: Option<u64>,
    pub bytes_read: Option<u64>,
    /// Files that were opened although they had been opened before.
    pub opened_again: Option<u64>,
    pub mount_tables: Option<u64>,
    pub children: Option<u64>,
    /// Beside the first one.
    pub threads: Option<u64>,
    pub faults: Option<u64>,
    pub memory_kib: Option<u64>,
}

/// A middle and where the middle half lies around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

impl Figures {
    /// A row by its group and name.
    pub fn row(&self, group: &str, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.group == group && row.name == name)
    }

    /// A row against another one of its group.
    pub fn times(&self, group: &str, name: &str, beside: &str) -> Option<Spread> {
        ratio(&self.row(group, name)?.times, &self.row(group, beside)?.times)
    }
}

impl Row {
    pub fn new(group: &str, name: impl Into<String>) -> Self {
        Self { group: group.to_owned(), name: name.into(), ..Self::default() }
    }

    pub fn missing(group: &str, name: impl Into<String>, why: &str) -> Self {
        Self { not_here: Some(why.to_owned()), ..Self::new(group, name) }
    }
}

/// The value that this share of all are not above; the slices are not empty.
fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    #[allow(clippy::cast_precision_loss, reason = "some hundred values")]
    let place = last as f64 * share;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the slice")]
    let (below, rest) = (place as usize, place.fract());
    sorted[below] + (sorted[(below + 1).min(last)] - sorted[below]) * rest
}

/// Nothing of no values.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| Spread {
        middle: at(&sorted, 0.5),
        low: at(&sorted, 0.25),
        high: at(&sorted, 0.75),
    })
}

/// The ratio of the medians; around it the middle half of the rounds' own ratios, which have what disturbed a
/// whole round on both sides.
pub fn ratio(one: &[f64], other: &[f64]) -> Option<Spread> {
    let pairs: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    let around = spread(&pairs)?;
    Some(Spread { middle: spread(one)?.middle / spread(other)?.middle, ..around })
}

/// What one takes more than the other: medians, and the middle half of the rounds.
pub fn difference(one: &[f64], other: &[f64]) -> Option<Spread> {
    let pairs: Vec<f64> = one.iter().zip(other).map(|(one, other)| one - other).collect();
    let around = spread(&pairs)?;
    Some(Spread { middle: spread(one)?.middle - spread(other)?.middle, ..around })
}

/// By which power of the size a time grows from one size to another: 1 is in proportion, 2 is its square.
pub fn growth(small: (f64, f64), large: (f64, f64)) -> f64 {
    (large.1 / small.1).ln() / (large.0 / small.0).ln()
}

/// `500 containers`: 500.
pub fn size_of(name: &str) -> Option<f64> {
    name.split_whitespace().find_map(|word| word.replace(',', "").parse().ok())
}
