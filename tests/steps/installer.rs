//! `install.sh` on a machine that is a folder: its own system calls, and those of all that it starts.

use super::machine::{Machine, is_same, names_in, text_of};
use super::play::{End, Play, Scene};
use super::support::output_of;
use super::trace::Traced;
use super::volume::Templates;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn plays() -> Vec<Play> {
    let all: [(&str, &'static [&'static str]); 4] = [
        ("install", &["same", "uninstall"]),
        ("upgrade", &["same", "rollback", "uninstall"]),
        ("rollback", &["same", "upgrade", "uninstall"]),
        ("uninstall", &["same", "install"]),
    ];
    let play = |(word, follow_ups)| Play {
        name: format!("installer/{word}"),
        follow_ups,
        demand: None,
        baseline: End::Success,
        set_up: Box::new(move |_: &Templates| -> Box<dyn Scene> {
            Box::new(Installed::set_up(word))
        }),
    };
    all.map(play).into()
}

struct Installed {
    word: &'static str,
    old: PathBuf,
    new: PathBuf,
    machine: Machine,
}

impl Installed {
    fn set_up(word: &'static str) -> Self {
        let machine = Machine::new();
        let (old, new) = (machine.make_driver("a"), machine.make_driver("b"));
        let scene = Self { word, old, new, machine };
        if word != "install" {
            scene.through("install-old");
        }
        if word == "rollback" {
            scene.through("upgrade");
        }
        scene
    }

    fn words(&self, word: &str) -> Command {
        match word {
            "install" | "upgrade" => self.machine.put(word, &self.new),
            "install-old" => self.machine.put("install", &self.old),
            other => {
                // Where it was to be, which an install that was killed has not noted yet.
                let mut command = self.machine.command([other, "--plugin-dir"]);
                command.arg(self.machine.plugins());
                command
            }
        }
    }

    /// Must succeed now, for what happened before is over.
    #[track_caller]
    fn through(&self, word: &str) {
        let output = output_of(&mut self.words(word));
        assert!(output.status.success(), "{word}: {}", text_of(&output));
        self.must_be(word);
    }

    fn has(&self, driver: &Path) -> bool {
        self.machine.driver().exists() && is_same(&self.machine.driver(), driver)
    }

    /// kubelet sees a whole driver, or none where there was none or is to be none.
    #[track_caller]
    fn must_be_whole(&self) {
        let visible = |folder: &Path| {
            let names = names_in(folder).into_iter().filter(|name| !name.starts_with('.'));
            names.collect::<Vec<_>>()
        };
        let plugins = self.machine.plugins();
        let folders = visible(&plugins);
        if folders.is_empty() {
            assert!(["install", "uninstall"].contains(&self.word), "the driver is gone");
            return;
        }
        assert_eq!(folders, ["incloud~disk"]);
        let files = visible(&plugins.join("incloud~disk"));
        if files.is_empty() {
            // kubelet takes that for the end of a driver.
            assert_eq!(self.word, "uninstall", "a folder without a driver");
            return;
        }
        assert_eq!(files, ["disk"]);
        assert!(self.has(&self.old) || self.has(&self.new), "not a whole driver");
        self.machine.answers();
    }

    /// What the success of a word says.
    #[track_caller]
    fn must_be(&self, word: &str) {
        if word == "uninstall" {
            assert!(names_in(&self.machine.plugins()).is_empty(), "uninstalled, and there");
            return;
        }
        match word {
            "install" | "upgrade" => assert!(self.has(&self.new), "{word}: another driver"),
            "install-old" => assert!(self.has(&self.old), "{word}: another driver"),
            // After a rollback that was interrupted late another one goes back again.
            _ => assert!(self.has(&self.old) || self.has(&self.new), "no whole driver"),
        }
        self.machine.answers();
        self.machine.is_tidy();
        let output = output_of(&mut self.machine.command(["verify"]));
        assert!(output.status.success(), "{word} succeeded, and verify: {}", text_of(&output));
    }
}

impl Scene for Installed {
    fn command(&self) -> Command {
        self.words(self.word)
    }

    fn base(&self) -> String {
        self.machine.base().to_str().expect("UTF-8").to_owned()
    }

    fn end_of(&self, traced: &Traced) -> End {
        self.must_be_whole();
        match traced.status {
            Some(0) => End::Success,
            Some(_) => End::Failure,
            None => End::Silent,
        }
    }

    /// Its words are for people: asked to end it ends.
    fn must_answer(&self) -> bool {
        false
    }

    fn must_be_so(&mut self, _said: &str) {
        self.must_be(self.word);
        if self.word == "rollback" {
            assert!(self.has(&self.old), "rolled back, and the new driver is there");
        }
    }

    fn go_on(&mut self, follow_up: &str) {
        let word = if follow_up == "same" { self.word } else { follow_up };
        let output = output_of(&mut self.words(word));
        let said = text_of(&output);
        if output.status.success() {
            self.must_be(word);
        } else {
            // Where nothing was switched yet there is nothing to go back to or to raise.
            let is_true = match word {
                "rollback" => self.has(&self.old) && said.contains("nothing to go back to"),
                "upgrade" => !self.machine.driver().exists() && said.contains("install it first"),
                _ => false,
            };
            assert!(is_true, "{word}: {said}");
        }
        for word in ["install", "uninstall"] {
            self.through(word);
        }
    }
}
