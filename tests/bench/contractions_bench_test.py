"""bench/contractions: the problems, NVIDIA's answers as they are kept, and how ours are compared with them; no package, no
stitch."""
import itertools
import json
import math
import pathlib
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACTIONS = ROOT / "bench/contractions"
sys.dont_write_bytecode = True
sys.path.insert(0, str(CONTRACTIONS))
import estimate  # noqa: E402
import nvidia  # noqa: E402
import problems  # noqa: E402
import space  # noqa: E402
import winners  # noqa: E402

KEPT = json.loads((CONTRACTIONS / "problems.json").read_text())
TILE = {"block": [128, 128, 32], "warp": [64, 64], "stages": 4, "split": 1, "group": 8}


def line(name, us, target="a100-80gb", **more):
    return {"name": name, "target": target, "predicted_us": us, "library_us": us, "tile": TILE, "schedule": "a schedule"} | more


def answer(name, us, gpu="a100-80gb", backend="CUTLASS", discovery=True, **more):
    configuration = {"block": [128, 128, 32], "warp": [64, 64, 32], "stages": 4, "split": 1}
    return {"name": name, "gpu": gpu, "backend": backend, "discovery": discovery, "best": (configuration, us)} | more


class Problems(unittest.TestCase):
    def test_the_file_is_what_is_written_anew(self):
        self.assertEqual((CONTRACTIONS / "problems.json").read_text(), problems.text_of(problems.problems()))

    def test_there_are_500_different_ones_all_valid(self):
        self.assertEqual(len(KEPT), 500)
        self.assertEqual(len({each["name"] for each in KEPT}), 500)
        self.assertEqual(len({json.dumps(each | {"name": ""}) for each in KEPT}), 500)
        for each in KEPT:
            with self.subTest(each["name"]):
                self.assertEqual(set(each), {"name", "dtype", "batch", "m", "n", "k", "left", "right", "result"})
                self.assertTrue(all(isinstance(each[extent], int) and each[extent] > 0 for extent in ("batch", "m", "n", "k")))
                self.assertLessEqual({each["left"], each["right"]}, {"plain", "turned"})
                self.assertIn((each["dtype"], each["result"]), nvidia.PRECISIONS)

    def test_most_are_of_the_types_that_matter(self):
        self.assertGreater(sum(each["dtype"] in ("f16", "bf16") for each in KEPT), 450)


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.about, cls.rows = nvidia.read()

    def test_every_question_has_its_answer(self):
        asked = [(gpu, backend, problem["name"]) for gpu, backend, problem in nvidia.questions(KEPT)]
        self.assertEqual([(row["gpu"], row["backend"], row["name"]) for row in self.rows], asked)
        for gpu in nvidia.GPUS:
            names = {row["name"] for row in self.rows if row["gpu"] == gpu}
            missing = {each["dtype"] for each in KEPT if each["name"] not in names}
            self.assertLessEqual(missing, {"f8e4m3"}, gpu)

    def test_the_best_is_the_least_of_those_that_are_kept(self):
        for row in self.rows:
            self.assertTrue(1 <= len(row["ranked"]) <= self.about["asked"])
            self.assertTrue(all(0 < us < 1e6 for _, us in row["ranked"]), row["name"])
            self.assertEqual(row["best"][1], min(us for _, us in row["ranked"]))
            self.assertEqual("bare" in row, row["discovery"])
            self.assertEqual(set(row["best"][0]),
                             {"block", "warp", "instruction", "stages", "split", "cluster", "swizzle", "order"})

    def test_discovery_is_of_f16_only(self):
        dtypes = {each["name"]: each["dtype"] for each in KEPT}
        self.assertEqual({dtypes[row["name"]] for row in self.rows if row["discovery"]}, {"f16"})

    def test_written_and_read_again(self):
        configuration = {"block": [1, 2, 3], "stages": 2}
        row = {"name": "a", "gpu": "l4", "ranked": [(configuration, 2.5), (configuration | {"stages": 3}, 2.0)],
               "best": (configuration | {"stages": 3}, 2.0), "bare": (configuration, 1.5)}

        class Kept:
            read_text = staticmethod(lambda: nvidia.text_of([row], {"package": "p"}))

        self.assertEqual(nvidia.read(Kept), ({"package": "p"}, [row]))

    def test_layouts_are_named_as_cutlass_names_them(self):
        for left, right, name in (("plain", "turned", "TN"), ("plain", "plain", "TT"), ("turned", "plain", "NT"),
                                  ("turned", "turned", "NN")):
            self.assertEqual(nvidia.layout_of({"left": left, "right": right}), name + "_ROW_MAJOR")


def ours_walks(rows, columns, group):
    """Tiles (row, column) in the order of our blocks: `group` rows of tiles together, column by column
    (codegen/contraction/contraction_text)."""
    for band in range(0, rows, group):
        for column in range(columns):
            for row in range(band, min(band + group, rows)):
                yield row, column


def theirs_walk(tiles_m, tiles_n, swizzle, order):
    """Tiles (m, n) as nvMatmulHeuristics.h has them: by ctaOrder 0 N lies along the grid's x, by 1 M; the swizzle folds so
    many of the other one in."""
    along, other = (tiles_n, tiles_m) if order == 0 else (tiles_m, tiles_n)
    for band in range(0, other, swizzle):
        for x in range(along):
            for y in range(band, min(band + swizzle, other)):
                yield (y, x) if order == 0 else (x, y)


class Tiles(unittest.TestCase):
    """A tile of ours and the same tile of theirs mean the same."""

    @staticmethod
    def space():
        edges, depths = (16, 32, 64, 128, 256), (16, 32, 64)
        for rows, columns, depth in itertools.product(edges, edges, depths):
            for down, across, stages, split, group in itertools.product((1, 2, 4), (1, 2, 4), (1, 3, 6), (1, 8), (1, 2, 16)):
                if rows // down >= 16 and columns // across >= 8:
                    yield {"block": [rows, columns, depth], "warp": [rows // down, columns // across], "stages": stages,
                           "split": split, "group": group}

    def test_there_and_back(self):
        for result in ("rows", "columns"):
            seen = set()
            for count, tile in enumerate(self.space(), 1):
                kernel = nvidia.kernel_of(tile, result)
                self.assertEqual(nvidia.tile_of(kernel, result), tile)
                self.assertEqual(nvidia.kernel_of(nvidia.tile_of(kernel, result), result), kernel)
                seen.add(json.dumps(kernel))
            self.assertEqual(len(seen), count, "two tiles are one kernel")
        self.assertGreater(count, 9000)

    def test_what_they_chose_comes_back_or_is_none_of_ours(self):
        _, rows = nvidia.read()
        kept = {json.dumps(configuration) for row in rows for configuration, _ in row["ranked"]}
        back = 0
        for configuration in map(json.loads, kept):
            kernel = {"cta": configuration["block"], "warp": configuration["warp"], "cluster": configuration["cluster"],
                      "loadStages": configuration["stages"], "splitK": configuration["split"],
                      "gridSwizzle": configuration["swizzle"], "ctaOrder": configuration["order"]}
            tile = nvidia.tile_of(kernel)
            other = kernel["cluster"] != [1, 1] or kernel["warp"][2] != kernel["cta"][2] or kernel["ctaOrder"] == 1
            self.assertEqual(tile is None, other, configuration)
            if tile:
                self.assertEqual(nvidia.kernel_of(tile), kernel)
                back += 1
        self.assertGreater(back, 100)

    def test_a_result_by_columns_has_rows_and_columns_exchanged(self):
        tile = TILE | {"block": [256, 64, 32], "warp": [64, 32], "group": 4}
        rows, columns = nvidia.kernel_of(tile), nvidia.kernel_of(tile, "columns")
        self.assertEqual((rows["cta"], rows["warp"], rows["ctaOrder"]), ([256, 64, 32], [64, 32, 32], 0))
        self.assertEqual((columns["cta"], columns["warp"], columns["ctaOrder"]), ([64, 256, 32], [32, 64, 32], 1))
        self.assertIsNone(nvidia.tile_of(columns), "read as one by rows it would walk the other way")
        for left, right, layout in (("plain", "turned", "TN"), ("plain", "plain", "NN"), ("turned", "plain", "NT"),
                                    ("turned", "turned", "TT")):
            self.assertEqual(nvidia.turned({"m": 3, "n": 5, "left": left, "right": right}), (5, 3, layout + "_COL_MAJOR"))

    def test_blocks_are_walked_in_the_same_order(self):
        for rows, columns, group in itertools.product((1, 3, 8, 17), (1, 4, 9), (1, 2, 8)):
            ours = list(ours_walks(rows, columns, group))
            tile = TILE | {"group": group}
            self.assertEqual(len(set(ours)), rows * columns)
            kernel = nvidia.kernel_of(tile)
            self.assertEqual(list(theirs_walk(rows, columns, kernel["gridSwizzle"], kernel["ctaOrder"])), ours)
            kernel = nvidia.kernel_of(tile, "columns")
            walked = theirs_walk(columns, rows, kernel["gridSwizzle"], kernel["ctaOrder"])
            self.assertEqual([(n, m) for m, n in walked], ours)


class Statistics(unittest.TestCase):
    def test_means_and_spread(self):
        self.assertAlmostEqual(estimate.geometric_mean([1, 4]), 2)
        self.assertAlmostEqual(estimate.spread([1, 4]), 2)
        self.assertAlmostEqual(estimate.spread([3, 3, 3]), 1)
        self.assertTrue(math.isnan(estimate.geometric_mean([])) and math.isnan(estimate.spread([])))
        self.assertEqual(estimate.text(math.nan), "")

    def test_rank_correlation(self):
        self.assertEqual(estimate.ranks([30, 10, 20, 20]), [3, 0, 1.5, 1.5])
        self.assertAlmostEqual(estimate.spearman([1, 2, 3, 4], [10, 100, 1000, 1001]), 1)
        self.assertAlmostEqual(estimate.spearman([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        self.assertAlmostEqual(estimate.spearman([1, 2, 3], [1, 3, 2]), 0.5)
        self.assertAlmostEqual(estimate.spearman([1, 2, 2, 4], [1, 2, 3, 4]), math.sqrt(0.9))
        self.assertTrue(math.isnan(estimate.spearman([1, 2], [5, 5])))

    def test_lines_of_ours_are_found_among_others(self):
        self.assertEqual(estimate.parse('warning: none\n{"name": "a"}\n\n{"name": "b"}\n'), [{"name": "a"}, {"name": "b"}])


class Comparison(unittest.TestCase):
    def setUp(self):
        self.a, self.b = (problems.problem(name, 4096, 4096, 4096) for name in "ab")

    def test_ours_are_compared_with_the_kernels_that_have_our_instruction(self):
        rows = [answer("a", 10, "h100", "CUTLASS3", bare=({}, 7)), answer("a", 20, "h100", bare=({}, 16))]
        [entry], missing = estimate.compare([self.a], [line("a", 30, "h100")], rows)
        self.assertEqual((entry["theirs"], entry["bare"], entry["fastest"], entry["backend"]), (20, 16, 10, "CUTLASS"))
        self.assertEqual(missing, [])
        [entry], _ = estimate.compare([self.a], [line("a", 30, "h100")], rows[:1])
        self.assertEqual((entry["theirs"], entry["backend"]), (10, "CUTLASS3"))

    def test_what_one_side_does_not_know_is_counted(self):
        ours = [line("a", 30), line("b", 30), line("a", None, why_none="f64"), line("a", 30, "t4"), line("a", 30, "a100")]
        entries, missing = estimate.compare([self.a], ours, [answer("a", 10)])
        self.assertEqual([entry["ours"] / entry["theirs"] for entry in entries], [3, 3])
        self.assertEqual(missing, ours[1:4])

    def test_discovery_and_bare_are_in_no_mean_together(self):
        rows = [answer("a", 10, bare=({}, 5)), answer("b", 10, discovery=False)]
        entries, _ = estimate.compare([self.a, self.b], [line("a", 20), line("b", 40)], rows)
        found = estimate.summary(entries)[2:]
        self.assertEqual(len(found), 2)
        self.assertIn("| discovery | 1 | 2.00 |", found[0])
        self.assertIn("| 4.00 |", found[0])  # beside the bare one
        self.assertIn("| bare | 1 | 4.00 |", found[1])

    def test_our_tiles_by_a_model_in_the_place_of_theirs(self):
        class Library:
            def __init__(self, *_):
                self.answers = {"a": 15.0, "b": None}

            def estimate(self, problem, tile):
                assert tile == TILE
                return self.answers[problem["name"]]

        entries, _ = estimate.compare([self.a, self.b], [line("a", 20), line("b", 40)], [answer("a", 10), answer("b", 10)])
        rows = estimate.tile_rows(estimate.estimates(entries, Library))
        self.assertIn("| 1 | 1 | 1.50 | 1.50 | 0 |", rows[2])
        self.assertIn("| a | 15.00 | 10.00 | 1.50 |", rows[-1])
        entries, _ = estimate.compare([self.a], [line("a", 20, schedule="a schedule streamed 108")], [answer("a", 10)])
        self.assertEqual(list(estimate.estimates(entries, Library)), [(entries[0], None)], "no split is no share of turns")

    def test_timed_tiles_are_beside_their_estimates(self):
        self.assertRegex(estimate.timed_tiles()[0], r"6 such were timed .* took 0\.57 of what this model")

    def test_the_page_needs_no_package(self):
        entries, missing = estimate.compare([self.a], [line("a", 30), line("b", 1)], [answer("a", 10)])
        about = {"package": "p 1", "flags": "F", "asked": 12}
        page = estimate.page(entries, missing, about, None)
        self.assertIn("has no `nvidia-matmul-heuristics`", page)
        self.assertIn("| a100-80gb | not asked of theirs | 1 |", page)
        self.assertIn("is of p 1, here is p 2", estimate.page(entries, missing, about, "p 2"))


class FakePrices:
    """In the place of stitch: 1 µs for each warp and stage, nothing fits that has 256 rows."""

    def __init__(self):
        self.wanted = set()

    def want(self, gpu, problem, tile):
        self.wanted.add((gpu, problem["name"], winners.tile_text(tile)))

    def ask(self):
        pass

    def get(self, gpu, problem, tile):
        assert (gpu, problem["name"], winners.tile_text(tile)) in self.wanted
        rows, columns, _ = tile["block"]
        if rows == 256:
            return 0.1, "shared-memory"
        warps = rows // tile["warp"][0] * (columns // tile["warp"][1])
        return float(warps + tile["stages"][0]), "registers" if columns == 256 else None


class Winners(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.document = winners.read()
        cls.cases = winners.cases_of(cls.document)

    def table(self, winner, **more):
        return {"gpu": "NVIDIA_A100-SXM4-80GB", "n": 512, "k": 1024, "dtype": "s8", "by": "block-scaled product",
                "winners": {"64": winner}} | more

    def test_what_is_kept_has_its_source_and_is_of_known_gpus(self):
        about = self.document["about"]
        self.assertTrue(about["source"].startswith("PyPI, sglang-") and len(about["sha256"]) == 64)
        self.assertEqual((about["licence"], tuple(about["fields"])), ("Apache-2.0", winners.FIELDS))
        self.assertGreater(len(self.cases), 400)
        for table in self.document["tables"]:
            self.assertIn(table["gpu"], winners.GPUS)
            self.assertTrue(("k" in table) != ("experts" in table))
            for winner in table["winners"].values():
                self.assertEqual(len(winner), len(winners.FIELDS))
                self.assertTrue(all(isinstance(each, int) and each > 0 for each in winner))

    def test_tables_are_known_by_their_names(self):
        text = json.dumps({"64": dict(zip(winners.FIELDS, (64, 128, 64, 1, 4, 3))), "triton_version": "3.5.1"})
        folder = "x/triton_utils/configs/triton_3_5_1/"
        gpu, what, kept = winners.table_of(folder + "E=8,N=3584,device_name=NVIDIA_H200.json", text)
        self.assertEqual((gpu, what["experts"], what["n"], kept), ("NVIDIA_H200", 8, 3584, {64: [64, 128, 64, 1, 4, 3]}))
        for other in ("E=8,N=3584,device_name=NVIDIA_H200,dtype=fp8_w8a8.json", "E=8,N=3584,device_name=NVIDIA_H200_down.json",
                      "E=9,N=3584,device_name=NVIDIA_H200.json", "E=8,N=3584,device_name=AMD_Instinct_MI300X.json"):
            self.assertIsNone(winners.table_of(folder + other, text), other)

    def test_warps_lie_as_triton_lays_them(self):
        for rows, columns, warps, laid in ((128, 128, 4, (2, 2)), (128, 64, 4, (4, 1)), (16, 64, 4, (1, 4)), (64, 256, 8, (2, 4)),
                                           (256, 32, 8, (8, 1)), (32, 32, 8, (2, 4))):
            self.assertEqual(winners.warps_of_mma(rows, columns, warps), laid, (rows, columns, warps))
        for rows, warps, laid in ((64, 4, (4, 1)), (64, 8, (4, 2)), (128, 8, (8, 1)), (256, 8, (8, 1))):
            self.assertEqual(winners.warps_of_wgmma(rows, warps), laid)

    def test_configurations_become_tiles(self):
        [tile] = winners.tiles_of((64, 128, 64, 16, 4, 4), "bf16", "a100-80gb", 4096, 3)
        self.assertEqual(tile, {"instruction": "mma_m16n8k16", "block": [64, 128, 64], "warp": [32, 64], "stages": [3, 2],
                                "group": 3})
        more, exactly = winners.tiles_of((128, 256, 64, 16, 8, 4), "bf16", "h100", 4096, 99)
        self.assertEqual((more["stages"], exactly["stages"], more["warp"], more["group"]), ([5, 1], [4, 1], [16, 256], 16))
        [small] = winners.tiles_of((16, 64, 64, 1, 4, 5), "bf16", "h100", 128, 1)
        self.assertEqual((small["instruction"], small["stages"]), ("mma_m16n8k16", [2, 2]), "no more than there are turns")

    def test_rows_of_experts_are_all_rows_of_all_tokens(self):
        for case in self.cases[::17]:
            if "experts" not in case.table:
                continue
            experts = case.table["experts"]
            self.assertAlmostEqual(sum(case.rows_of), 1, 9)
            self.assertAlmostEqual(sum(rows * p for rows, p in enumerate(case.rows_of)) * experts, case.rows * case.chosen, 5)
            share = 1 - case.rows_of[0]
            for block in (16, 128):
                tiles = sum(-(-rows // block) * p for rows, p in enumerate(case.rows_of)) / share
                made = case.products(block)
                found = sum(weight * -(-problem["m"] // block) for weight, problem in made) / 2
                self.assertAlmostEqual(found, tiles, 5)
                self.assertEqual(len({(problem["n"], problem["k"]) for _, problem in made}), 2)

    def test_block_scaled_products_scale_their_sums_besides(self):
        case = winners.Case(self.table([64, 64, 128, 1, 4, 3]), 64)
        # 8 tiles, each on an SM of its own, 8 tiles of the depth: 4,096 sums by 16 conversions and 64 / 3 other lanes a clock.
        self.assertAlmostEqual(winners.scaling_us(case, (64, 64, 128, 1, 4, 3)), 8 * 4096 * (1 / 16 + 3 / 64) / 1410)
        self.assertAlmostEqual(winners.scaling_us(case, (64, 64, 64, 1, 4, 3)), 2 * winners.scaling_us(case, (64, 64, 128, 1, 4, 3)))
        mixture = next(each for each in self.cases if "experts" in each.table)
        self.assertEqual(winners.scaling_us(mixture, (64, 64, 64, 1, 4, 3)), 0)
        # 128 sums of a thread twice are all its registers.
        for configuration, spilled in (((128, 128, 64, 1, 4, 3), True), ((128, 128, 64, 1, 8, 3), False), ((64, 256, 128, 1, 8, 2), False),
                                       ((256, 128, 64, 1, 8, 2), True)):
            self.assertEqual(winners.sums_spill(case, configuration), spilled, configuration)
            self.assertFalse(winners.sums_spill(mixture, configuration))

    @unittest.mock.patch.object(winners, "scaling_us", lambda case, configuration: 0)
    @unittest.mock.patch.object(winners, "sums_spill", lambda case, configuration: False)
    def test_a_winner_has_its_place_among_all_that_fit(self):
        self.assertEqual(len(winners.space_of(winners.Case(self.table([64, 64, 64, 1, 4, 2]), 64))), 1280)
        best, middle, none = winners.rank([winners.Case(self.table(winner), 64) for winner in (
            [64, 64, 64, 1, 4, 2], [64, 64, 64, 1, 8, 5], [256, 64, 64, 1, 4, 2])], FakePrices())
        self.assertEqual(len(best.times), 4 * 3 * 2 * 4 * 2 * 4, "256 rows do not fit, 256 columns would spill")
        self.assertEqual((best.choice[4:], best.regret), ((4, 2), 1))
        ties = 4 * 3 * 2 * 4
        self.assertAlmostEqual(best.place, (ties - 1) / 2 / (len(best.times) - 1), msg="of equals the middle")
        self.assertGreater(middle.place, 0.9)
        self.assertEqual(middle.regret, 12 / 5)
        self.assertEqual((none.winner_us, none.why_none), (None, "shared-memory"))
        page = winners.page([best, middle, none], {}, self.document, set(), "no package")
        self.assertIn("| all | 2 | 1 |", page)
        self.assertIn("shared-memory 1", page)

    def test_a_third_of_the_shapes_is_held_out(self):
        out, shapes = winners.held_out(self.cases), {case.shape for case in self.cases}
        self.assertEqual(len(out), -(-len(shapes) // 3))
        self.assertLess(out, shapes)


class Space(unittest.TestCase):
    PROBLEMS = [{"name": "alcop/1x1x1"}, {"name": "alcop/conv", "window": [3, 3]}, {"name": "bert", "keys": 5, "gradient": "queries"}]

    def test_kinds_and_families(self):
        self.assertEqual([space.family_of(each) for each in self.PROBLEMS],
                         ["ALCOP, products", "ALCOP, convolutions", "bench/products, attention's gradients"])

    def test_gains_leave_out_what_has_no_kernel(self):
        whole = [line("a", 2), {"name": "b", "why_none": "none"}, line("c", 5)]
        without = [line("a", 3), line("b", 4), {"name": "c", "why_none": "none"}]
        self.assertEqual(space.gains(whole, without), [1.5])

    def test_counts_are_median_least_and_most(self):
        lines = [line("a", 1, enumerated=7), line("b", 1, enumerated=9), {"name": "c", "why_none": "none"}]
        rows = space.counts_table([{"name": f"alcop/{name}"} for name in "abc"], {"a100": lines})
        self.assertEqual(rows[-1], "| ALCOP, products | 3 | 8 (7 – 9), 1 without any |")

    def test_an_ablation_counts_against_no_pipelining(self):
        parts = {"one-level": [line("a", 8), line("b", 2)], "two-stages": [line("a", 16), line("b", 2)],
                 "no-pipelining": [line("a", 16), line("b", 2)]}
        rows = space.ablation_rows(self.PROBLEMS[:2], [line("a", 4), line("b", 1)], parts)
        self.assertEqual(rows[2], "| as it is | 2.83 | 4.00 | 2.00 | 2.00 – 4.00 | 1.23 |")
        self.assertEqual(rows[3], "| without registers as a level | 1.41 | 2.00 | 1.00 | 1.00 – 2.00 | 1.13 |")
        self.assertEqual(rows[4], "| with two stages at the most | 1.00 | 1.00 | 1.00 | 1.00 – 1.00 | 1.01 |")


if __name__ == "__main__":
    unittest.main()
