from typing import Any as Any

Json = dict[str, Any]
