//! The plots of the documents, of the values of one run.

use crate::budgets::sizes;
use crate::figures::Figures;
use crate::plot::{Axis, Plot, Scale, Series, svg};
use std::fs;
use std::path::{Path, PathBuf};

/// A file's name, its title and axis, the word that its rows' names end with, and the groups with their lines' names.
type Drawing = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const CROWD: &[(&str, &str)] =
    &[("heal", "attach that heals"), ("guard", "unmountdevice that is refused")];

const DRAWINGS: [Drawing; 4] = [
    (
        "processes",
        "Guard and heal, one container of 25 has the volume",
        "processes in pods",
        "processes",
        CROWD,
    ),
    (
        "containers",
        "Guard and heal, all containers have the volume",
        "containers",
        "containers",
        CROWD,
    ),
    (
        "mounts",
        "Guard and heal, one container has the volume",
        "mounts of the machine",
        "mounts",
        CROWD,
    ),
    ("status", "disk status", "volumes", "volumes", &[("looking", "disk status")]),
];

/// Writes those that have values, and says where.
pub fn write(figures: &Figures) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/figures");
    fs::create_dir_all(&folder).unwrap();
    let mut written = Vec::new();
    for (file, title, axis, word, groups) in DRAWINGS {
        let lines =
            groups.iter().map(|(group, name)| Series::measured(*name, sizes(figures, group, word)));
        let series: Vec<_> = lines.filter(|line| line.points.len() > 1).collect();
        if series.is_empty() {
            continue;
        }
        let text = svg(&Plot {
            title,
            x: Axis { name: axis, scale: Scale::Linear },
            y: Axis { name: "time of processors, ms", scale: Scale::Linear },
            series,
        });
        let path = folder.join(format!("{file}.svg"));
        fs::write(&path, text).unwrap();
        written.push(path);
    }
    written
}
