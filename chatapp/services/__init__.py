"""What people can do, as verbs. All are coroutines with keyword arguments.

Each writes in one atomic block and only then speaks to the store; what is safe to repeat says so.
They raise `Refused` (errors.py) for a no that a person can act on, and relay's `StoreUnavailable`
or `RecordUnavailable` when a part of the server is away.
"""

from __future__ import annotations

from chatapp.services.asking import Question, Sent, create_response, retry, send_message
from chatapp.services.branching import (
    choose,
    continue_answer,
    edit_message,
    may_continue,
    regenerate,
    tree_of,
)
from chatapp.services.changing import MOST, Change, changed_chats, cursor, moment
from chatapp.services.chats import (
    GRACE,
    Settings,
    delete_chat,
    hide_chat,
    restore_chat,
    start_chat,
    update_chat,
)
from chatapp.services.context import Outlook, outlook
from chatapp.services.credentials import (
    codes_left,
    end_sessions,
    make_api_key,
    revoke_api_key,
    save_preferences,
    sessions_of,
    usable_keys,
)
from chatapp.services.erasing import erase_user
from chatapp.services.errors import (
    BadInput,
    ChatBusy,
    DayUsedUp,
    EnoughRunning,
    KeyReused,
    LimitReached,
    NoRoom,
    NotChecked,
    NotContinuable,
    NotInPlan,
    NotRetryable,
    NotWaiting,
    QueueFull,
    Refused,
    StoreAway,
    TooLarge,
    UnknownModel,
)
from chatapp.services.exporting import as_json, as_markdown, file_name
from chatapp.services.finding import ChatPage, Found, list_chats, search
from chatapp.services.limits import default_model, models_of
from chatapp.services.personal import export_user
from chatapp.services.reading import recorded, snapshot
from chatapp.services.repair import Sweep
from chatapp.services.sealing import Backlog, backlog
from chatapp.services.settling import records
from chatapp.services.stopping import Stopping, cancel, leave
from chatapp.services.titles import Titles
from chatapp.services.transcript import Left, Window, window
from chatapp.services.waiting import rewrite

__all__ = [
    "GRACE",
    "MOST",
    "Backlog",
    "BadInput",
    "Change",
    "ChatBusy",
    "ChatPage",
    "DayUsedUp",
    "EnoughRunning",
    "Found",
    "KeyReused",
    "Left",
    "LimitReached",
    "NoRoom",
    "NotChecked",
    "NotContinuable",
    "NotInPlan",
    "NotRetryable",
    "NotWaiting",
    "Outlook",
    "Question",
    "QueueFull",
    "Refused",
    "Sent",
    "Settings",
    "Stopping",
    "StoreAway",
    "Sweep",
    "Titles",
    "TooLarge",
    "UnknownModel",
    "Window",
    "as_json",
    "as_markdown",
    "backlog",
    "cancel",
    "changed_chats",
    "choose",
    "codes_left",
    "continue_answer",
    "create_response",
    "cursor",
    "default_model",
    "delete_chat",
    "edit_message",
    "end_sessions",
    "erase_user",
    "export_user",
    "file_name",
    "hide_chat",
    "leave",
    "list_chats",
    "make_api_key",
    "may_continue",
    "models_of",
    "moment",
    "outlook",
    "recorded",
    "records",
    "regenerate",
    "restore_chat",
    "retry",
    "revoke_api_key",
    "rewrite",
    "save_preferences",
    "search",
    "send_message",
    "sessions_of",
    "snapshot",
    "start_chat",
    "tree_of",
    "update_chat",
    "usable_keys",
    "window",
]
