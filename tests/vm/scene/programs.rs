//! Real databases of Debian, in a root of their own on a disk that is plugged in for them.
//!
//! A client inserts rows without an end. What the database has confirmed is written to memory, under the database's
//! name, where [`Scene::confirmed`] and [`Scene::named_databases`] read it; so is why the client stopped.

use super::database::ONE;
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

impl Engine {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgresql => "postgresql",
        }
    }
}

impl Database {
    pub(crate) fn is_of(&self, engine: Engine) -> bool {
        self.engine == engine
    }
}

/// A database, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Database {
    engine: Engine,
    pub(crate) name: String,
    /// In the guest.
    folder: String,
    /// The process that has the files open: its PID, and when it began.
    process: Option<(u32, String)>,
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
        REST
    done
} | exec stdbuf -oL sqlite3 -bail DATA/NAME.sqlite
"#;

/// The client of `PostgreSQL`, with one session for all.
const PSQL: &str = r#"n=0
{
    echo 'CREATE TABLE rows(number integer PRIMARY KEY, text text);'
    while n=$((n + 1)); do
        echo "INSERT INTO rows VALUES($n, lpad('$n', 300, '0'));"
        printf '%s\n' "\\echo $n"
        REST
    done
} | exec stdbuf -oL BIN/psql -X -q -At -v ON_ERROR_STOP=1 -h /run/postgresql-NAME -U database postgres
"#;

/// What the server is told besides its defaults: where it is, and that it writes its log's pages often.
const SERVER: &str = "listen_addresses = ''
unix_socket_directories = '/run/postgresql-NAME'
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
        self.machine.put(ENTER, &filled_in(ENTER_TEXT, "", ""))?;
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
        let mut database = self.engine_is_made(engine, folder, ONE, None)?;
        self.engine_serves(&database)?;
        self.client_writes(&database, "")?;
        self.database_goes_on("the database confirms rows")?;
        self.processes_are_known(std::slice::from_mut(&mut database))?;
        Ok(database)
    }

    /// The files of one, under a name of its own; copied from another one's, where there is one that never ran.
    pub(crate) fn engine_is_made(
        &mut self,
        engine: Engine,
        folder: &str,
        name: &str,
        like: Option<&Database>,
    ) -> Outcome<Database> {
        let folder = format!("{folder}/{name}");
        self.machine.shell(&format!(
            "rm -f /run/{name}.*; install -d -m 700 {folder}; chown {USER} {folder}"
        ))?;
        if engine == Engine::Postgresql {
            let bin = self.bin(engine)?;
            if let Some(like) = like {
                let copy = format!("cp -a {}/files {folder}/ && sync -f {folder}", like.folder);
                let argv = ["/bin/sh", "-c", &copy];
                let (code, text) = self.machine.run(&argv, LONG)?;
                self.check("its files are copied", code == Some(0), text.trim())?;
            } else {
                self.enter(&folder, &format!(
                    "{bin}/initdb -D {DATA}/files -U database -A trust -k -N --locale=C -E UTF8 >/dev/null"
                ))?;
                self.row("initdb has made its files", "with checksums", true);
            }
        }
        Ok(Database { engine, name: name.to_owned(), folder, process: None })
    }

    /// Its server, if it has one, runs.
    pub(crate) fn engine_serves(&mut self, database: &Database) -> Outcome {
        let Database { engine, name, folder, .. } = database;
        if *engine == Engine::Sqlite {
            return Ok(());
        }
        let conf = filled_in(SERVER, "", name);
        self.machine.shell(&format!("cat >>{folder}/files/postgresql.conf <<'END'\n{conf}END"))?;
        self.server_starts(folder, name)
    }

    /// A client writes to it, and rests after each row by this command.
    pub(crate) fn client_writes(&mut self, database: &Database, rest: &str) -> Outcome {
        let Database { engine, name, folder, .. } = database;
        let client = match engine {
            Engine::Sqlite => SQLITE,
            Engine::Postgresql => PSQL,
        };
        let text = filled_in(client, &self.bin(*engine)?, name).replace("REST", rest);
        let client = format!("/run/programs/client-{name}");
        self.machine.put(&client, &text)?;
        // In a session of its own; what comes after it says how it ended.
        self.machine.shell(&format!(
            "setsid sh -c '/bin/sh {ENTER} {folder} /bin/sh {client} >/run/{name}.confirmed 2>/run/{name}.errors; \
             echo \"the client ended: $(tail -n 1 /run/{name}.errors)\" >/run/{name}.stopped' \
             </dev/null >/dev/null 2>&1 &"
        ))?;
        Ok(())
    }

    /// The server of `PostgreSQL` accepts clients.
    fn server_starts(&mut self, folder: &str, name: &str) -> Outcome {
        let bin = self.bin(Engine::Postgresql)?;
        self.machine.shell(&format!(
            "install -d /run/postgresql-{name}; chown {USER} /run/postgresql-{name}; \
             setsid /bin/sh {ENTER} {folder} {bin}/postgres -D {DATA}/files </dev/null >>/run/{name}.log 2>&1 &"
        ))?;
        self.check_soon("the server is ready", LONG, |scene| {
            // In its eighth line, once it is.
            let line = format!(
                "sed -n 8p {folder}/files/postmaster.pid 2>/dev/null; tail -n 1 /run/{name}.log"
            );
            let said = scene.machine.shell(&line)?;
            Ok((said.starts_with("ready"), said))
        })
    }

    /// Each of them confirms rows: its process has begun.
    pub(crate) fn processes_are_known(&mut self, databases: &mut [Database]) -> Outcome {
        for database in databases {
            let find = match database.engine {
                Engine::Sqlite => format!(
                    "for p in $(grep -lx sqlite3 /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do \
                     ! grep -qs /{}.sqlite /proc/$p/cmdline || echo $p; done",
                    database.name
                ),
                Engine::Postgresql => format!("head -n 1 {}/files/postmaster.pid", database.folder),
            };
            let said = self.machine.shell(&find)?;
            let pid = said.trim().parse().ok();
            let check = format!("a process has the files of {}", database.name);
            self.check(&check, pid.is_some(), format!("PID {said}"))?;
            let Some(pid) = pid else { continue };
            let begun = self.machine.shell(&begun_at(pid))?;
            database.process = Some((pid, begun));
        }
        Ok(())
    }

    /// Neither clients nor servers have seen an error, and all are who they were.
    pub(crate) fn engines_saw_nothing(&mut self, databases: &[Database]) -> Outcome {
        let line = |database: &Database| {
            let name = &database.name;
            let (pid, _) = database.process.as_ref()?;
            Some(format!(
                "echo $({}); echo $(cat /run/{name}.stopped /run/{name}.errors 2>/dev/null | tail -n 3; \
                 grep -E 'PANIC|FATAL|ERROR|WARNING' /run/{name}.log 2>/dev/null | tail -n 3)",
                begun_at(*pid)
            ))
        };
        let ask: Option<Vec<String>> = databases.iter().map(line).collect();
        let ask = ask.ok_or_else(|| Stop::Broken("a process is not known".to_owned()))?;
        let said = self.machine.shell(&format!("{}; true", ask.join("; ")))?;
        let mut lines = said.lines().map(str::trim);
        for database in databases {
            let (name, process) = (&database.name, database.process.as_ref());
            let (now, errors) =
                (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
            let check = "neither a client nor a server told of an error";
            if !errors.is_empty() {
                self.check(check, false, format!("{name}: {errors}"))?;
            }
            let is_same = process.is_some_and(|(_, begun)| begun == now);
            if !is_same {
                let saw = format!("{name}: {process:?}, now {now:?}");
                self.check("each process is the one that it was", false, saw)?;
            }
        }
        let saw = format!("{} of them, with their processes", databases.len());
        self.check("neither a client nor a server told of an error", true, saw)
    }

    /// `SQLite` is killed amid its writes, `PostgreSQL` ends in order.
    pub(crate) fn engine_ends(&mut self, database: &Database) -> Outcome {
        match database.engine {
            Engine::Sqlite => {
                let pid = database.process.as_ref().map_or(0, |(pid, _)| *pid);
                self.machine.shell(&format!(
                    "kill -9 {pid}; for i in $(seq 100); do [ -e /proc/{pid} ] || exit 0; sleep 0.1; done; exit 1"
                ))?;
            }
            Engine::Postgresql => {
                // The client first: what it loses is no error.
                self.machine.shell(&format!(
                    "for p in $(grep -lx psql /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do \
                     ! grep -qs /run/postgresql-{} /proc/$p/cmdline || kill -9 $p; done",
                    database.name
                ))?;
                self.server_ends(database)?;
            }
        }
        Ok(())
    }

    fn server_ends(&mut self, database: &Database) -> Outcome {
        let Database { folder, name, .. } = database;
        self.machine.shell(&format!("kill -INT $(head -n 1 {folder}/files/postmaster.pid)"))?;
        self.check_soon("the server ends in order", LONG, |scene| {
            let said = scene.machine.shell(&format!(
                "tail -n 1 /run/{name}.log; ls {folder}/files/postmaster.pid 2>/dev/null || true"
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
        let Database { folder, name, .. } = database;
        let confirmed = self.named_databases(std::slice::from_ref(name))?.0.first().copied();
        let confirmed = confirmed.unwrap_or_default();
        match database.engine {
            Engine::Sqlite => {
                let said = self.enter(
                    folder,
                    &format!("sqlite3 {DATA}/{name}.sqlite 'PRAGMA integrity_check'"),
                )?;
                self.check("PRAGMA integrity_check", said == "ok", said)?;
                let ask = format!(
                    "SELECT count(*) FROM rows WHERE number <= {confirmed} AND text = printf('%0300d', number)"
                );
                let said =
                    self.enter(folder, &format!("sqlite3 {DATA}/{name}.sqlite \"{ask}\""))?;
                self.has_all_rows(confirmed, &said)
            }
            Engine::Postgresql => {
                let bin = self.bin(database.engine)?;
                let said =
                    self.enter(folder, &format!("{bin}/pg_checksums --check -D {DATA}/files"))?;
                self.check("pg_checksums --check", said.contains("Bad checksums:  0"), said)?;
                self.server_starts(folder, name)?;
                let client = format!("-h /run/postgresql-{name} -U database");
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
                self.server_ends(database)
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

/// When a process began, in the kernel's words; nothing if there is none.
fn begun_at(pid: u32) -> String {
    format!("sed 's/.*) //' /proc/{pid}/stat 2>/dev/null | cut -d' ' -f20")
}

fn filled_in(text: &str, bin: &str, name: &str) -> String {
    [("ROOT", ROOT), ("DATA", DATA), ("USER", USER), ("BIN", bin), ("NAME", name)]
        .into_iter()
        .fold(text.to_owned(), |text, (word, by)| text.replace(word, by))
}
