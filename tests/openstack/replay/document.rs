//! Reads the transcripts: cases with a request and a reply, and what is noted after them.

use serde_json::Value;

/// The transcripts of real services, as they were recorded.
const TEXT: &str = include_str!("../transcripts.md");

/// One case: what stands below one heading.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// The heading.
    pub(super) title: String,
    /// The letter of its section.
    pub(super) section: char,
    /// A request with its whole reply; none for two requests at once.
    pub(super) exchange: Option<Exchange>,
    /// Two requests at once.
    pub(super) race: Vec<Racer>,
    /// The lines after the reply.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Exchange {
    pub(super) method: String,
    /// The port and path, such as `:8774/v2.1/servers`.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) status: u16,
    pub(super) reply_headers: Vec<(String, String)>,
    pub(super) reply: String,
}

/// One of two requests at once: what was asked, the status, the body.
#[derive(Debug, Clone)]
pub(super) struct Racer {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) status: u16,
    pub(super) reply: String,
}

impl Case {
    /// The name by which a case is known: the first word of its title.
    pub(super) fn name(&self) -> &str {
        self.title.split(' ').next().unwrap_or_default()
    }

    /// The statuses that were seen at Cinder afterwards, without the end of the recorder's patience.
    pub(super) fn seen(&self) -> Option<Vec<String>> {
        let line = self.notes.iter().find(|line| line.starts_with("Cinder status seen: "))?;
        let quoted = line.split('\'').skip(1).step_by(2);
        Some(quoted.filter(|status| *status != "TIMEOUT").map(str::to_owned).collect())
    }
}

/// All cases in order.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // Sections begin with `# A.`; what is before the first one is not about cases.
    for section in TEXT.split("\n# ").skip(1) {
        let letter = section.chars().next().expect("a section's letter");
        cases.extend(section.split("\n### ").skip(1).map(|text| case(letter, text)));
    }
    cases
}

fn case(section: char, text: &str) -> Case {
    let mut parts = text.split("\n```");
    let title = parts.next().unwrap_or_default().trim().to_owned();
    let block = parts.next().unwrap_or_default();
    let notes: Vec<String> = parts.flat_map(str::lines).map(str::to_owned).collect();
    let (exchange, race) = match block.strip_prefix("http\n") {
        Some(block) => (Some(exchange(block)), Vec::new()),
        None => (None, block.lines().filter_map(racer).collect()),
    };
    assert!(exchange.is_some() || race.len() == 2, "{title}: neither a request nor two");
    Case { title, section, exchange, race, notes }
}

fn exchange(block: &str) -> Exchange {
    let (request, reply) = block.split_once("\n--> ").expect("a request and a reply");
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let mut lines = head.lines();
    let (method, target) =
        lines.next().and_then(|line| line.split_once(' ')).expect("a request line");
    let headers = lines.filter_map(header).collect();
    let (reply_head, reply) = reply.split_once("\n\n").expect("a head and a body");
    let mut lines = reply_head.lines();
    let status = lines.next().and_then(|line| line.split(' ').next()?.parse().ok());
    let reply = reply.trim();
    Exchange {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body: body.trim().to_owned(),
        status: status.expect("a status"),
        reply_headers: lines.filter_map(header).collect(),
        reply: if reply == "(empty body)" { String::new() } else { reply.to_owned() },
    }
}

fn header(line: &str) -> Option<(String, String)> {
    line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Reads `POST /servers/... -> 400 (2.77 s) {...}`.
fn racer(line: &str) -> Option<Racer> {
    let (request, reply) = line.split_once(" -> ")?;
    let (method, path) = request.split_once(' ')?;
    let (status, rest) = reply.split_once(' ')?;
    let (_, reply) = rest.split_once(')')?;
    Some(Racer {
        method: method.to_owned(),
        path: path.to_owned(),
        status: status.parse().ok()?,
        reply: reply.trim().to_owned(),
    })
}

/// A reply's body; none if the recorder has cut it.
pub(super) fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}
