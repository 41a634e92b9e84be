"""For each rule a schedule that needs it, and the law that it breaks without it.

After a change of the model: `python -m tests.model --seeds 100000` finds new ones.
"""

from __future__ import annotations

from typing import Final

from tests.model.laws import Law

WITNESSES: Final = {
    "create_once": (21, Law.WRONG_TEXT),
    "ordered_epochs": (634, Law.UNTOLD),
    "busy": (2, Law.DEPOSED),
    "fence": (5943, Law.TWO_ENDS),
    "deadline": (396, Law.LOG_AND_RECORD),
    "no_second_run": (1, Law.RUN_AGAIN),
    "compare": (6, Law.WORDS),
    "gap": (39, Law.WRONG_TEXT),
    "cursor_epoch": (144, Law.WRONG_TEXT),
    "message_epoch": (336, Law.WRONG_TEXT),
    "look_at_tails": (37, Law.STUCK),
    "wish_is_kept": (117, Law.STOP_LOST),
    "honest_cancel": (95, Law.LIE),
    "creator_counts": (0, Law.TOO_SOON),
    "late_heartbeat": (7950, Law.FOR_NOBODY),
    "lost_presence": (9, Law.TOO_SOON),
    "silent_disconnect": (101, Law.TOO_SOON),
    "left_mark": (214, Law.TOO_SOON),
    "judged_by_renew": (87, Law.FOR_NOBODY),
    "judged_by_claim": (611, Law.FOR_NOBODY),
    "judged_by_sweep": (910, Law.QUEUED_FOR_NOBODY),
    "early_presence": (90943, Law.TOO_SOON),
    "record_wins": (27, Law.TWO_ENDS),
    "header_wins": (44604, Law.WRONG_TEXT),
    "one_record": (14437, Law.RECORD_CHANGED),
    "ack_closed": (536, Law.LOG_OPEN),
    "restore": (3881, Law.WRONG_TEXT),
    "restored_presence": (143, Law.TOO_SOON),
    "grace": (638, Law.DEPOSED),
    "presence_grace": (3565, Law.TOO_SOON),
    "one_id": (0, Law.TWO_RESPONSES),
    "reserve_by_response": (2, Law.RESERVED_TWICE),
    "lapse": (267, Law.RESERVED_FOR_GOOD),
    "settled_stays": (0, Law.RESERVED_FOR_GOOD),
    "settle_once": (1, Law.MISCOUNTED),
    "settle_lapsed": (3, Law.MISCOUNTED),
    "settle_before_ack": (195, Law.MISCOUNTED),
    "unknown_holds": (1, Law.UNRESERVED),
    "refill": (0, Law.MISCOUNTED),
    "refill_after_loss": (825, Law.MISCOUNTED),
    "refill_names_run": (4317, Law.MISCOUNTED),
    "settled_later": (229212, Law.MISCOUNTED),
    "settled_by_finder": (428290, Law.MISCOUNTED),
    "refill_marks": (27, Law.MISCOUNTED),
}
