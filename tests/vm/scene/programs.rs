//! Real databases of Debian, in a root of their own on a disk that is plugged in for them.
//!
//! A client inserts rows without an end. What the database has confirmed is written to memory, where
//! [`Scene::confirmed`] reads it; so is why the client stopped.

use super::{Outcome, Scene, Stop};
use crate::host::plug::LENT;
use std::time::Duration;

/// Where the programs are in the guest.
const ROOT: &str = "/programs";
/// In the programs' root: the folder of the volume.
pub(super) const DATA: &str = "/data";
/// `parts.sh` makes this user.
pub(super) const USER: &str = "70:70";

const ENTER: &str = "/run/programs/enter";
const CLIENT: &str = "/run/programs/client";

/// In software emulation a first start of `PostgreSQL` takes a while.
const LONG: Duration = Duration::from_secs(400);

/// Runs a command in the programs' root, with mounts of its own.
const ENTER_TEXT: &str = r#"#!/bin/sh
# enter FOLDER COMMAND...
exec unshare --mount /bin/sh -c '
    set -e
    for part in dev proc run tmp; do mount --rbind /$part ROOT/$part; done
    mount --bind "$1" ROOTDATA
    shift
    exec chroot --userspec=USER ROOT "$@"
' enter "$@"
"#;

/// What is on a volume, and who writes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgresql,
}

/// A database that runs.
#[derive(Debug)]
pub(crate) struct Database {
    engine: Engine,
    /// Of the volume, in the guest.
    folder: String,
    /// The process that has the files open: its PID, and when it began.
    process: String,
}

/// `SQLite`'s shell confirms each row after its commit.
const SQLITE: &str = r#"n=0
{
    echo '.output /dev/null'
    echo 'PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=100;'
    echo 'CREATE TABLE rows(number INTEGER PRIMARY KEY, text TEXT);'
    echo '.output'
    while n=$((n + 1)); do
        echo "INSERT INTO rows VALUES($n, printf('%0300d', $n)); SELECT $n;"
    done
} | exec stdbuf -oL sqlite3 -bail DATA/database.sqlite
"#;

/// The client of `PostgreSQL`, with one session for all.
const PSQL: &str = r#"n=0
{
    echo 'CREATE TABLE rows(number integer PRIMARY KEY, text text);'
    while n=$((n + 1)); do
        echo "INSERT INTO rows VALUES($n, lpad('$n', 300, '0'));"
        printf '%s\n' "\\echo $n"
    done
} | exec stdbuf -oL BIN/psql -X -q -At -v ON_ERROR_STOP=1 -h /run/postgresql -U database postgres
"#;

/// What the server is told besides its defaults: where it is, and that it writes its log's pages often.
const SERVER: &str = "listen_addresses = ''
unix_socket_directories = '/run/postgresql'
fsync = on
synchronous_commit = on
full_page_writes = on
restart_after_crash = off
shared_buffers = 16MB
max_connections = 10
min_wal_size = 32MB
max_wal_size = 48MB
checkpoint_timeout = 30s
jit = off
";

impl Scene<'_> {
    /// Plugs in the disk with the programs.
    pub(crate) fn bring_programs(&mut self) -> Outcome {
        let image = self.bench.image.programs(&self.bench.parts)?;
        self.machine.plug.lend(&image)?;
        self.machine.put(ENTER, &filled_in(ENTER_TEXT, ""))?;
        let said = self.machine.shell(&format!(
            "mkdir -p {ROOT}; for i in $(seq 100); do \
             for disk in /sys/block/*; do [ \"$(cat $disk/serial 2>/dev/null)\" = {LENT} ] && \
             mount -t ext4 -o ro /dev/${{disk##*/}} {ROOT} 2>/dev/null && \
             chroot {ROOT} sqlite3 --version && exit 0; done; sleep 0.1; done; exit 1"
        ))?;
        self.row("the disk with the programs is there", format!("SQLite {said}"), true);
        Ok(())
    }

    pub(super) fn take_programs_back(&mut self) -> Result<(), String> {
        if !self.machine.plug.has_lent() {
            return Ok(());
        }
        self.machine.shell(&format!(
            "for i in $(seq 100); do ! mountpoint -q {ROOT} || umount {ROOT} 2>/dev/null; \
             mountpoint -q {ROOT} || exit 0; sleep 0.1; done; exit 1"
        ))?;
        self.machine.plug.take_back()
    }

    /// A database that was never there before, and a client that writes to it.
    pub(crate) fn engine_begins(&mut self, engine: Engine, folder: &str) -> Outcome<Database> {
        let folder = format!("{folder}/database");
        self.machine.shell(&format!(
            "rm -f /run/database.*; install -d -m 700 {folder}; chown {USER} {folder}"
        ))?;
        let bin = self.bin(engine)?;
        if engine == Engine::Postgresql {
            self.enter(&folder, &format!(
                "{bin}/initdb -D {DATA}/files -U database -A trust -k -N --locale=C -E UTF8 >/dev/null"
            ))?;
            self.machine
                .shell(&format!("cat >>{folder}/files/postgresql.conf <<'END'\n{SERVER}END"))?;
            self.row("initdb has made its files", "with checksums", true);
            self.server_starts(&folder)?;
        }
        let client = match engine {
            Engine::Sqlite => SQLITE,
            Engine::Postgresql => PSQL,
        };
        self.machine.put(CLIENT, &filled_in(client, &bin))?;
        // In a session of its own; what comes after it says how it ended.
        self.machine.shell(&format!(
            "setsid sh -c '/bin/sh {ENTER} {folder} /bin/sh {CLIENT} >/run/database.confirmed 2>/run/database.errors; \
             echo \"the client ended: $(tail -n 1 /run/database.errors)\" >/run/database.stopped' \
             </dev/null >/dev/null 2>&1 &"
        ))?;
        self.database_goes_on("the database confirms rows")?;
        let mut database = Database { engine, folder, process: String::new() };
        database.process = self.process_of(&database)?;
        let process = database.process.clone();
        self.check("a process has the files", process.starts_with("PID"), process)?;
        Ok(database)
    }

    /// The server of `PostgreSQL` accepts clients.
    fn server_starts(&mut self, folder: &str) -> Outcome {
        let bin = self.bin(Engine::Postgresql)?;
        self.machine.shell(&format!(
            "install -d /run/postgresql; chown {USER} /run/postgresql; \
             setsid /bin/sh {ENTER} {folder} {bin}/postgres -D {DATA}/files </dev/null >>/run/database.log 2>&1 &"
        ))?;
        self.check_soon("the server is ready", LONG, |scene| {
            // In its eighth line, once it is.
            let line = format!(
                "sed -n 8p {folder}/files/postmaster.pid 2>/dev/null; tail -n 1 /run/database.log"
            );
            let said = scene.machine.shell(&line)?;
            Ok((said.starts_with("ready"), said))
        })
    }

    /// PID and time of its start, in the kernel's words.
    fn process_of(&mut self, database: &Database) -> Outcome<String> {
        let find = match database.engine {
            // The one whose name it is.
            Engine::Sqlite => {
                "pid=$(grep -lx sqlite3 /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3)".to_owned()
            }
            Engine::Postgresql => {
                format!("pid=$(head -n 1 {}/files/postmaster.pid)", database.folder)
            }
        };
        let line = format!(
            "{find}; [ -n \"$pid\" ] && [ -e /proc/$pid ] || {{ echo none; exit 0; }}; \
             echo \"PID $pid, begun at $(sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f20)\""
        );
        Ok(self.machine.shell(&line)?)
    }

    /// Neither the client nor the server has seen an error, and both are who they were.
    pub(crate) fn engine_saw_nothing(&mut self, database: &Database) -> Outcome {
        self.no_write_has_failed()?;
        let errors = self.machine.shell(
            "cat /run/database.errors; cat /run/database.log 2>/dev/null | grep -E 'PANIC|FATAL|ERROR|WARNING' | tail -n 3; true",
        )?;
        self.check(
            "neither the client nor the server told of an error",
            errors.is_empty(),
            errors,
        )?;
        let now = self.process_of(database)?;
        self.check("it is the same process", now == database.process, now)
    }

    /// `SQLite` is killed amid its writes, `PostgreSQL` ends in order.
    pub(crate) fn engine_ends(&mut self, database: &Database) -> Outcome {
        match database.engine {
            Engine::Sqlite => self.end_engines()?,
            Engine::Postgresql => {
                // The client first: what it loses is no error.
                self.machine.shell("for p in $(grep -lx psql /proc/[0-9]*/comm | cut -d/ -f3); do kill -9 $p; done")?;
                self.server_ends(&database.folder)?;
            }
        }
        Ok(())
    }

    fn server_ends(&mut self, folder: &str) -> Outcome {
        self.machine.shell(&format!("kill -INT $(head -n 1 {folder}/files/postmaster.pid)"))?;
        self.check_soon("the server ends in order", LONG, |scene| {
            let said = scene.machine.shell(&format!(
                "tail -n 1 /run/database.log; ls {folder}/files/postmaster.pid 2>/dev/null || true"
            ))?;
            Ok((said.ends_with("database system is shut down"), said))
        })
    }

    /// Ends all that runs in the programs' root.
    pub(super) fn end_engines(&mut self) -> Result<(), String> {
        if !self.machine.plug.has_lent() {
            return Ok(());
        }
        let line = format!(
            "for i in $(seq 100); do some=; for p in /proc/[0-9]*; do \
             [ \"$(readlink $p/root)\" = {ROOT} ] && some=1 && kill -9 ${{p#/proc/}}; done; \
             [ -n \"$some\" ] || exit 0; sleep 0.1; done 2>/dev/null; exit 1"
        );
        self.machine.shell(&line).map(drop)
    }

    /// Everything that was confirmed is there, and the database finds nothing wrong with itself. The volume was
    /// mounted anew, so this is read from the disk.
    pub(crate) fn engine_is_whole(&mut self, database: &Database) -> Outcome {
        let confirmed = self.confirmed()?;
        let folder = &database.folder;
        match database.engine {
            Engine::Sqlite => {
                let said = self.enter(
                    folder,
                    &format!("sqlite3 {DATA}/database.sqlite 'PRAGMA integrity_check'"),
                )?;
                self.check("PRAGMA integrity_check", said == "ok", said)?;
                let ask = format!(
                    "SELECT count(*) FROM rows WHERE number <= {confirmed} AND text = printf('%0300d', number)"
                );
                let said =
                    self.enter(folder, &format!("sqlite3 {DATA}/database.sqlite \"{ask}\""))?;
                self.has_all_rows(confirmed, &said)
            }
            Engine::Postgresql => {
                let bin = self.bin(database.engine)?;
                let said =
                    self.enter(folder, &format!("{bin}/pg_checksums --check -D {DATA}/files"))?;
                self.check("pg_checksums --check", said.contains("Bad checksums:  0"), said)?;
                self.server_starts(folder)?;
                let client = "-h /run/postgresql -U database";
                let ask = format!(
                    "SELECT count(*) FROM rows WHERE number <= {confirmed} AND text = lpad(number::text, 300, '0')"
                );
                let said = self
                    .enter(folder, &format!("{bin}/psql -X -At {client} -c \"{ask}\" postgres"))?;
                self.has_all_rows(confirmed, &said)?;
                let said = self.enter(folder, &format!(
                    "{bin}/pg_amcheck {client} --install-missing --heapallindexed postgres && echo nothing"
                ))?;
                self.check("pg_amcheck", said == "nothing", said)?;
                self.server_ends(folder)
            }
        }
    }

    fn has_all_rows(&mut self, confirmed: u64, said: &str) -> Outcome {
        let is_all = confirmed > 0 && said.parse() == Ok(confirmed);
        self.check("each confirmed row is there", is_all, format!("{said} of {confirmed}"))
    }

    /// Runs a line in the programs' root, to its end; answers what it printed.
    pub(super) fn enter(&mut self, folder: &str, line: &str) -> Outcome<String> {
        let argv = ["/bin/sh", ENTER, folder, "/bin/sh", "-c", &format!("{{ {line}; }} 2>&1")];
        let (code, text) = self.machine.run(&argv, LONG)?;
        let text = text.trim().replace('\n', "; ");
        if code == Some(0) {
            return Ok(text);
        }
        Err(Stop::Wrong { check: format!("{line} succeeds"), saw: format!("{code:?} {text}") })
    }

    /// Where the programs of that one are; Debian has them in a folder of their version.
    fn bin(&mut self, engine: Engine) -> Outcome<String> {
        match engine {
            Engine::Sqlite => Ok(String::new()),
            Engine::Postgresql => {
                let version = self.machine.shell(&format!("ls {ROOT}/usr/lib/postgresql"))?;
                Ok(format!("/usr/lib/postgresql/{version}/bin"))
            }
        }
    }
}

fn filled_in(text: &str, bin: &str) -> String {
    text.replace("ROOT", ROOT).replace("DATA", DATA).replace("USER", USER).replace("BIN", bin)
}
