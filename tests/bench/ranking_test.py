"""bench/ranking: the figures of quality.py, and that what ranks best on the page is the default; no stitch."""
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench/ranking"))
import quality  # noqa: E402

KEPT = json.loads((ROOT / "bench/results/ranking.json").read_text())


def group(predicted, measured, noise=0.0):
    return [(a, b, noise) for a, b in zip(predicted, measured)]


class Figures(unittest.TestCase):
    def test_an_order_that_is_right_wrong_or_none(self):
        right = quality.quality([group([1, 2, 3], [10, 20, 30])])
        self.assertEqual((right["spearman"], right["kendall"], right["pairs"], right["pairs_right"]), (1, 1, 3, 1))
        wrong = quality.quality([group([3, 2, 1], [10, 20, 30])])
        self.assertEqual((wrong["spearman"], wrong["kendall"], wrong["pairs_right"], wrong["regret"]), (-1, -1, 0, 2))
        none = quality.quality([group([1, 1, 1], [10, 20, 30])])
        self.assertEqual((none["spearman"], none["kendall"], none["pairs_right"]), (0, 0, 0.5))
        self.assertIsNone(quality.quality([group([1], [1])]), "one candidate has no order")

    def test_what_a_measurement_cannot_tell_apart_counts_in_no_pair(self):
        self.assertEqual(quality.pairs(group([2, 1], [100, 101]))[0], 0)
        self.assertEqual(quality.pairs(group([2, 1], [100, 110], noise=0.05))[0], 0)
        self.assertEqual(quality.pairs(group([2, 1], [100, 110], noise=0.01))[:2], (1, 0))

    def test_regret_is_of_the_first_predicted(self):
        some = group([1, 2, 3], [12, 15, 10])
        self.assertAlmostEqual(quality.regret(some), 0.2)
        self.assertAlmostEqual(quality.regret(some, 2), 0.2)
        self.assertAlmostEqual(quality.regret(some, 3), 0)

    def test_equal_values_share_their_rank(self):
        self.assertEqual(quality.ranks([5, 1, 5, 9]), [1.5, 0, 1.5, 3])


class Default(unittest.TestCase):
    def winner(self, qualities, among):
        best = among[0]
        for scorer in among[1:]:
            best = scorer if quality.better(qualities[scorer], qualities[best]) else best
        return best

    def test_the_default_wins_on_the_page(self):
        kernels = KEPT["kernels"]["all"]
        self.assertEqual(self.winner(kernels, ["analytical", "analytical, compiled"]), KEPT["defaults"]["kernels"])
        for part in ("products", "products after the fit"):
            self.assertEqual(self.winner(KEPT[part]["all"], ["analytical", "analytical, spills last"]),
                             KEPT["defaults"]["products"], part)

    def test_a_trained_model_is_taken_after_compilation_too(self):
        kernels = KEPT["kernels"]["all"]
        self.assertEqual(self.winner(kernels, ["combined", "combined, compiled"]), "combined, compiled")
        self.assertTrue(quality.better(kernels["combined"], kernels["learned"]), "else daemons train the wrong kind")


if __name__ == "__main__":
    unittest.main()
