"""scripts/release in a small repository of its own: what it makes, and what it refuses."""
import hashlib
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.repository = pathlib.Path(folder.name) / "clone"
        (self.repository / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/release", self.repository / "scripts/release")
        for name in ("CMakeLists.txt", "CHANGELOG.md", ".gitignore"):
            shutil.copy(ROOT / name, self.repository / name)
        self.version = re.search(r"project\(stitch VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.git("init", "--quiet")
        self.git("config", "user.name", "Tester")
        self.git("config", "user.email", "tester@example.com")
        self.commit()

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], cwd=self.repository, check=True, capture_output=True, text=True).stdout

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A commit")

    def release(self, *arguments):
        return subprocess.run(["scripts/release", *arguments], cwd=self.repository, capture_output=True, text=True)

    def edit(self, name, old, new):
        path = self.repository / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def assert_refused(self, why, *arguments):
        done = self.release(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(why, done.stderr)
        self.assertFalse((self.repository / "build").exists())

    def test_makes_tag_notes_archive_and_checksum(self):
        done = self.release()
        self.assertEqual(done.returncode, 0, done.stderr)
        dist = self.repository / "build/dist"
        name = f"stitch-{self.version}"
        self.assertEqual(sorted(file.name for file in dist.iterdir()),
                         [f"{name}-notes.md", f"{name}.tar.gz", f"{name}.tar.gz.sha256"])
        digest, file = (dist / f"{name}.tar.gz.sha256").read_text().split()
        self.assertEqual(file, f"{name}.tar.gz")
        self.assertEqual(digest, hashlib.sha256((dist / file).read_bytes()).hexdigest())
        with tarfile.open(dist / file) as archive:
            self.assertIn(f"{name}/scripts/release", archive.getnames())
        notes = (dist / f"{name}-notes.md").read_text()
        self.assertIn(notes.splitlines()[0], (ROOT / "CHANGELOG.md").read_text())
        self.assertNotIn("## [", notes.replace("### ", ""))
        self.assertEqual(self.git("rev-parse", f"v{self.version}^{{commit}}"), self.git("rev-parse", "HEAD"))
        self.assertEqual(self.git("tag", "--list", "--format=%(contents)", f"v{self.version}").strip(), notes.strip())
        self.assertEqual(self.git("status", "--porcelain"), "")  # what was made is ignored

    def test_one_commit_has_one_archive(self):
        self.assertEqual(self.release("--output", "build/first").returncode, 0)
        self.git("tag", "--delete", f"v{self.version}")
        self.assertEqual(self.release("--output", "build/second").returncode, 0)
        archives = [self.repository / "build" / folder / f"stitch-{self.version}.tar.gz" for folder in ("first", "second")]
        self.assertEqual(archives[0].read_bytes(), archives[1].read_bytes())

    def test_dry_run_writes_nothing(self):
        done = self.release("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"as v{self.version}", done.stdout)
        self.assertEqual(self.git("tag", "--list"), "")
        self.assertFalse((self.repository / "build").exists())

    def test_a_tree_with_changes_is_refused(self):
        self.edit("CHANGELOG.md", "# Changelog", "# Change log")
        self.assert_refused("has changes")
        self.assert_refused("has changes", "--dry-run")
        self.git("checkout", "--quiet", "CHANGELOG.md")
        (self.repository / "notes.txt").write_text("to do")
        self.assert_refused("unknown files")

    def test_a_version_without_notes_is_refused(self):
        self.edit("CMakeLists.txt", f"VERSION {self.version}", "VERSION 97.5.3")
        self.commit()
        self.assert_refused("no section '## [97.5.3]'")
        self.edit("CHANGELOG.md", "## [Unreleased]", "## [97.5.3] - 2097-05-03\n\n## [Unreleased]")
        self.commit()
        self.assert_refused("says nothing")

    def test_a_version_that_is_tagged_is_refused(self):
        self.git("tag", f"v{self.version}")
        self.assert_refused("exists already")
        self.assert_refused("exists already", "--dry-run")

    def test_unknown_arguments_are_refused(self):
        self.assert_refused("unknown argument", "--force")
        self.assert_refused("needs a folder", "--output")


if __name__ == "__main__":
    unittest.main()
