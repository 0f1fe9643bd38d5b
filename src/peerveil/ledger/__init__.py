"""What has been spent on which data set; refuses to overspend.

- open one: :meth:`Ledger.open`, a SQLite file or a PostgreSQL database;
- spend before the noise is drawn: :meth:`Ledger.account`, then :meth:`Account.spend`, which returns an
  :class:`Entry`;
- refusals: :class:`BudgetExceeded`, :class:`DataBound`, :class:`SimulationRefused`, :class:`LedgerError`;
- read it: :meth:`Account.statement` (a :class:`Statement` with a :class:`Subtotal` per unit),
  :meth:`Ledger.table`, :meth:`Ledger.to_json`, :meth:`Ledger.to_csv`;
- check it: :meth:`Ledger.verify` (a :class:`Verification`), and :func:`verify_export` for an exported one.

>>> import tempfile
>>> from peerveil.core.guarantee import Guarantee
>>> from peerveil.core.randomness import Randomness
>>> folder = tempfile.TemporaryDirectory()
>>> ledger = Ledger.open(f"{folder.name}/budget.db")
>>> account = ledger.account("iclr", epsilon=1)
>>> tenth = Guarantee.pure_dp(0.1, unit="one review", neighbors="one review has another score")
>>> secure = Randomness.secure()
>>> for area in range(10):
...     receipt = account.spend(tenth, purpose=f"mean of area {area}", data="reviews 2026", randomness=secure)
>>> account.spent, account.remaining, ledger.verify().ok
(1.0, 0.0, True)
>>> try:
...     account.spend(tenth, purpose="one more", data="reviews 2026", randomness=secure)
... except BudgetExceeded as refusal:
...     print(refusal)
account 'iclr': requested 0.1, remaining 0, 0.1 too much; nothing was spent
>>> ledger.close()
>>> folder.cleanup()
"""

from peerveil.ledger.account import Account, Statement, Subtotal
from peerveil.ledger.entry import Entry
from peerveil.ledger.ledger import Ledger
from peerveil.ledger.refusals import BudgetExceeded, DataBound, LedgerError, SimulationRefused
from peerveil.ledger.verify import Verification, verify_export

__all__ = [
    "Account",
    "BudgetExceeded",
    "DataBound",
    "Entry",
    "Ledger",
    "LedgerError",
    "SimulationRefused",
    "Statement",
    "Subtotal",
    "Verification",
    "verify_export",
]
