//! A source file with all its mutants in it: each is a branch that is taken when the program is told its number.
//!
//! Only text is put between the text that is there, so that mutants stand within mutants. What is put in remembers the
//! mutant that it is for: the compiler's errors name bytes, and lead back to it.

use crate::listed::{Genre, Mutant, Place};
use std::collections::HashMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A file's new text.
#[derive(Debug)]
pub struct Woven {
    pub text: String,
    /// What stands there for one mutant alone.
    pub branches: Vec<(Range<usize>, u32)>,
    /// The expression, arm or function that holds these mutants.
    pub nodes: Vec<(Range<usize>, Vec<u32>)>,
    /// Mutants that have no place, with the reason.
    pub left: Vec<(u32, &'static str)>,
}

/// Puts these mutants, which are all of one file, into its text.
pub fn weave(source: &str, mutants: &[&Mutant]) -> Result<Woven, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut by_place: HashMap<(Place, Genre), Vec<&Mutant>> = HashMap::new();
    for mutant in mutants {
        by_place.entry((mutant.start, mutant.genre)).or_default().push(mutant);
    }
    let mut weaver = Weaver {
        source,
        by_place,
        edits: Vec::new(),
        nodes: Vec::new(),
        left: Vec::new(),
        depth: 0,
        in_const: false,
    };
    weaver.visit_file(&file);
    let mut left = weaver.left;
    for lost in weaver.by_place.into_values().flatten() {
        left.push((lost.number, "it stands where the tool does not look"));
    }
    let (text, branches, places) = assemble(source, weaver.edits);
    let moved = |at: usize, of_end: bool| {
        // What was put in at the very place belongs to the node.
        let all = places.iter().filter(|(old, _)| if of_end { *old <= at } else { *old < at });
        at.saturating_add_signed(all.map(|(_, grown)| *grown).sum())
    };
    let nodes = weaver.nodes.into_iter();
    let nodes =
        nodes.map(|(range, of)| (moved(range.start, false)..moved(range.end, true), of)).collect();
    Ok(Woven { text, branches, nodes, left })
}

/// The bytes of a branch, and its mutant.
type Branch = (Range<usize>, u32);
/// A place in the old text, and by how many bytes what follows has moved.
type Grown = (usize, isize);
/// A piece of what is put in, and the mutant that it is for.
type Piece = (String, Option<u32>);

struct Edit {
    /// What it takes the place of.
    range: Range<usize>,
    /// At one place: what ends stands before what begins; within ends the inner one, within beginnings the outer one first.
    order: (u8, isize),
    pieces: Vec<Piece>,
}

fn assemble(source: &str, mut edits: Vec<Edit>) -> (String, Vec<Branch>, Vec<Grown>) {
    edits.sort_by_key(|edit| (edit.range.start, edit.order));
    let (mut text, mut branches, mut places) = (String::new(), Vec::new(), Vec::new());
    let mut at = 0;
    for edit in edits {
        if edit.range.start < at {
            // Within what is written anew: its mutants are told as lost by the one who wrote it.
            continue;
        }
        text.push_str(&source[at..edit.range.start]);
        let before = text.len();
        for (piece, mutant) in edit.pieces {
            let begin = text.len();
            text.push_str(&piece);
            branches.extend(mutant.map(|mutant| (begin..text.len(), mutant)));
        }
        let grown = isize::try_from(text.len() - before).unwrap_or(0)
            - isize::try_from(edit.range.len()).unwrap_or(0);
        places.push((edit.range.start, grown));
        at = edit.range.end;
    }
    text.push_str(&source[at..]);
    (text, branches, places)
}

struct Weaver<'a> {
    source: &'a str,
    by_place: HashMap<(Place, Genre), Vec<&'a Mutant>>,
    edits: Vec<Edit>,
    nodes: Vec<(Range<usize>, Vec<u32>)>,
    left: Vec<(u32, &'static str)>,
    depth: isize,
    in_const: bool,
}

/// With `||` beside a `let` it is no program.
pub const LET: &str = "a `let` stands beside it";
const CONST: &str = "it is worked out when the program is built";

fn place_of(span: proc_macro2::Span) -> Place {
    let start = span.start();
    Place { line: start.line, column: start.column + 1 }
}

fn bytes(spanned: &impl Spanned) -> Range<usize> {
    spanned.span().byte_range()
}

fn plain(text: impl Into<String>) -> Vec<Piece> {
    vec![(text.into(), None)]
}

fn on(number: u32) -> String {
    format!("crate::mutant::on({number})")
}

/// `if on(1) { … } else if on(2) { … } else { … }`
fn branches(of: &[(u32, String)], otherwise: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, text) in of {
        pieces.push((format!("if {} {{ ", on(*number)), None));
        pieces.push((text.clone(), Some(*number)));
        pieces.push((" } else ".to_owned(), None));
    }
    pieces.push((format!("{{ {otherwise} }}"), None));
    pieces
}

impl<'a> Weaver<'a> {
    /// The mutants of a place, which must not be in a constant.
    fn take(&mut self, span: proc_macro2::Span, genre: Genre) -> Vec<&'a Mutant> {
        let found = self.by_place.remove(&(place_of(span), genre)).unwrap_or_default();
        if self.in_const {
            self.left.extend(found.iter().map(|mutant| (mutant.number, CONST)));
            return Vec::new();
        }
        found
    }

    fn node(&mut self, range: Range<usize>, of: &[&Mutant]) {
        self.nodes.push((range, of.iter().map(|mutant| mutant.number).collect()));
    }

    fn begin(&mut self, at: usize, pieces: Vec<Piece>) {
        self.edits.push(Edit { range: at..at, order: (1, self.depth), pieces });
    }

    fn end(&mut self, at: usize, pieces: Vec<Piece>) {
        self.edits.push(Edit { range: at..at, order: (0, -self.depth), pieces });
    }

    fn instead(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.edits.push(Edit { range, order: (2, self.depth), pieces: plain(text) });
    }

    fn body(&mut self, block: &syn::Block, signature: &syn::Signature) {
        let Some(first) = block.stmts.first() else { return };
        let is_const = std::mem::replace(&mut self.in_const, signature.constness.is_some());
        let found = self.take(first.span(), Genre::FnValue);
        if !found.is_empty() {
            let mut pieces = Vec::new();
            for mutant in &found {
                pieces.push((format!("if {} {{ return ", on(mutant.number)), None));
                pieces.push((mutant.replacement.clone(), Some(mutant.number)));
                pieces.push(("; } ".to_owned(), None));
            }
            self.begin(bytes(first).start, pieces);
            self.node(bytes(block), &found);
        }
        self.depth += 1;
        self.visit_block(block);
        self.depth -= 1;
        self.in_const = is_const;
    }

    fn in_constant(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.in_const, true);
        visit(self);
        self.in_const = before;
    }

    fn binary(&mut self, expr: &syn::ExprBinary) {
        use syn::BinOp;
        let found = self.take(expr.op.span(), Genre::BinaryOperator);
        if found.is_empty() {
            return;
        }
        if has_let(&expr.left) || has_let(&expr.right) {
            self.left.extend(found.iter().map(|one| (one.number, LET)));
            return;
        }
        let (whole, operator) = (bytes(expr), bytes(&expr.op));
        let before = &self.source[operator.clone()];
        let all = |text: &dyn Fn(&str) -> String| -> Vec<(u32, String)> {
            found.iter().map(|one| (one.number, text(&one.replacement))).collect()
        };
        match expr.op {
            BinOp::And(_) | BinOp::Or(_) => {
                let is_and = matches!(expr.op, BinOp::And(_));
                let other = if is_and { "||" } else { "&&" };
                let (fits, not): (Vec<&Mutant>, Vec<&Mutant>) =
                    found.iter().copied().partition(|one| one.replacement == other);
                self.left.extend(
                    not.iter().map(|one| (one.number, "no branch is written for this operator")),
                );
                let [one] = fits[..] else { return };
                let on = on(one.number);
                self.begin(whole.start, plain("(if ("));
                let (sign, last) =
                    if is_and { ("!=", on.clone()) } else { ("==", format!("!{on}")) };
                self.instead(operator, format!(") {sign} {on} {{"));
                self.end(whole.end, plain(format!("}} else {{ {last} }})")));
            }
            BinOp::Eq(_)
            | BinOp::Ne(_)
            | BinOp::Lt(_)
            | BinOp::Le(_)
            | BinOp::Gt(_)
            | BinOp::Ge(_) => {
                self.begin(whole.start, plain("(match (&("));
                self.instead(operator, "), &(");
                let mut pieces = plain(")) { (left, right) => ");
                pieces.extend(branches(
                    &all(&|sign| format!("*left {sign} *right")),
                    &format!("*left {before} *right"),
                ));
                pieces.push((" })".to_owned(), None));
                self.end(whole.end, pieces);
            }
            BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_) => {
                let place = self.source[bytes(&*expr.left)].to_owned();
                self.instead(whole.start..operator.end, "(match (");
                let mut pieces = plain(") { right => ");
                pieces.extend(branches(
                    &all(&|sign| format!("{place} {sign} right")),
                    &format!("{place} {before} right"),
                ));
                pieces.push((" })".to_owned(), None));
                self.end(whole.end, pieces);
            }
            _ => {
                self.begin(whole.start, plain("(match (("));
                self.instead(operator, "), (");
                let mut pieces = plain(")) { (left, right) => ");
                pieces.extend(branches(
                    &all(&|sign| format!("left {sign} right")),
                    &format!("left {before} right"),
                ));
                pieces.push((" })".to_owned(), None));
                self.end(whole.end, pieces);
            }
        }
        self.node(whole, &found);
    }

    fn unary(&mut self, expr: &syn::ExprUnary) {
        let found = self.take(expr.op.span(), Genre::UnaryOperator);
        if found.is_empty() {
            return;
        }
        let (whole, operator) = (bytes(expr), bytes(&expr.op));
        let sign = self.source[operator.clone()].to_owned();
        self.instead(operator, "(match (");
        let all: Vec<(u32, String)> =
            found.iter().map(|one| (one.number, format!("{}value", one.replacement))).collect();
        let mut pieces = plain(") { value => ");
        pieces.extend(branches(&all, &format!("{sign}value")));
        pieces.push((" })".to_owned(), None));
        self.end(whole.end, pieces);
        self.node(whole, &found);
    }

    fn arm(&mut self, arm: &syn::Arm) {
        let deleted = self.take(arm.span(), Genre::MatchArm);
        let gone: String = deleted.iter().map(|one| format!("!{} && ", on(one.number))).collect();
        match &arm.guard {
            Some((_, guard)) => {
                let found = self.take(guard.span(), Genre::MatchArmGuard);
                if found.is_empty() && deleted.is_empty() {
                    return;
                }
                let (mut begin, mut end) = (format!("({gone}("), "))".to_owned());
                for one in &found {
                    match one.replacement.as_str() {
                        "true" => begin += &format!("({} || ", on(one.number)),
                        "false" => begin += &format!("(!{} && ", on(one.number)),
                        _ => {
                            self.left.push((one.number, "no branch is written for this guard"));
                            begin += "(";
                        }
                    }
                    end.push(')');
                }
                // `a || b` within `c && …`
                begin += "(";
                end.push(')');
                let range = bytes(&**guard);
                self.begin(range.start, plain(begin));
                self.end(range.end, plain(end));
                self.node(range, &[found, deleted].concat());
            }
            None if deleted.is_empty() => {}
            None => {
                let at = bytes(&arm.pat);
                self.end(at.end, plain(format!(" if {gone}true ")));
                self.node(at, &deleted);
            }
        }
    }

    fn fields(&mut self, expr: &syn::ExprStruct) {
        let Some(rest) = &expr.rest else { return };
        let (base, path) = (&self.source[bytes(&**rest)], &self.source[bytes(&expr.path)]);
        for field in &expr.fields {
            let found = self.take(field.span(), Genre::StructField);
            let [one] = found[..] else { continue };
            let name = match &field.member {
                syn::Member::Named(name) => name.to_string(),
                syn::Member::Unnamed(index) => index.index.to_string(),
            };
            let range = bytes(&field.expr);
            let label =
                if field.colon_token.is_some() { String::new() } else { format!("{name}: ") };
            self.begin(
                range.start,
                vec![
                    (format!("{label}if {} {{ ", on(one.number)), None),
                    (format!("let base: {path} = {base}; base.{name}"), Some(one.number)),
                    (" } else { ".to_owned(), None),
                ],
            );
            self.end(range.end, plain(" }"));
            self.node(range, &found);
        }
    }
}

/// Whether a `let` of a chain is among what `&&` joins.
fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) if matches!(both.op, syn::BinOp::And(_)) => {
            has_let(&both.left) || has_let(&both.right)
        }
        _ => false,
    }
}

impl<'a> Visit<'a> for Weaver<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.body(&item.block, &item.sig);
    }
    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.body(&item.block, &item.sig);
    }
    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(block, &item.sig);
        }
    }
    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.in_constant(|me| visit::visit_item_const(me, item));
    }
    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.in_constant(|me| visit::visit_item_static(me, item));
    }
    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.in_constant(|me| visit::visit_impl_item_const(me, item));
    }
    fn visit_type(&mut self, item: &'a syn::Type) {
        self.in_constant(|me| visit::visit_type(me, item));
    }
    fn visit_expr(&mut self, expr: &'a syn::Expr) {
        self.depth += 1;
        match expr {
            syn::Expr::Binary(expr) => self.binary(expr),
            syn::Expr::Unary(expr) => self.unary(expr),
            syn::Expr::Struct(expr) => self.fields(expr),
            _ => {}
        }
        visit::visit_expr(self, expr);
        self.depth -= 1;
    }
    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        self.arm(arm);
        visit::visit_arm(self, arm);
    }
}
