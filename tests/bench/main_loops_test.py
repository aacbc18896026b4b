"""bench/sass/main_loops: which loop of a listing multiplies, and what is counted of it; no compiler, no nvdisasm."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("main_loops", str(ROOT / "bench/sass/main_loops"))
main_loops = importlib.util.module_from_spec(importlib.util.spec_from_loader("main_loops", loader))
loader.exec_module(main_loops)

# Tiles one after another (.L_x_0), in them the depth (.L_x_1) with a wait that is walked again (.L_x_2) and one that lies
# elsewhere (.L_x_3), and before them a loop that multiplies less.
LISTING = """
.text.kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_9:
        /*0010*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0020*/              @!P0 BRA `(.L_x_9) ;
.L_x_0:
        /*0030*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0040*/                   LDSM.16.M88.4 R8, [R2] ;
.L_x_2:
        /*0050*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR30], R12 ;
        /*0060*/              @!P0 BRA `(.L_x_3) ;
        /*0070*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0080*/              @!UP1 UIADD3 UR4, UR4, 0x1, URZ ;
        /*0090*/                   HGMMA.64x256x16.F32 R24, gdesc[UR8], R24 ;
        /*00a0*/               @P1 BRA `(.L_x_1) ;
        /*00b0*/                   STG.E [R2.64], R4 ;
        /*00c0*/               @P2 BRA `(.L_x_0) ;
        /*00d0*/                   EXIT ;
.L_x_3:
        /*00e0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR30], R12 ;
        /*00f0*/               @P0 BRA `(.L_x_2) ;
        /*0100*/                   BRA `(.L_x_3) ;
"""


class MainLoop(unittest.TestCase):
    def test_it_is_the_innermost_that_multiplies_most(self):
        loop = main_loops.main_loop(LISTING.replace("@P0 BRA `(.L_x_2)", "@P0 BRA `(.L_y_2)"))
        self.assertEqual((loop.instructions, loop.tensor), (7, 2))
        self.assertEqual(loop.names, {"LDSM": 1, "SYNCS": 1, "BRA": 2, "HMMA": 1, "UIADD3": 1, "HGMMA": 1})
        self.assertEqual(main_loops.others(loop), "BRA 2, LDSM 1, SYNCS 1, UIADD3 1")

    def test_a_way_back_from_elsewhere_is_no_loop(self):
        """A wait's slow path stands behind the kernel's end and goes back into the loop."""
        self.assertEqual([loop.instructions for loop in main_loops.loops_of(LISTING)], [2, 7])

    def test_a_listing_without_products_has_none(self):
        with self.assertRaises(SystemExit):
            main_loops.main_loop(LISTING.replace("HMMA", "FFMA").replace("HGMMA", "FFMA"))


if __name__ == "__main__":
    unittest.main()
